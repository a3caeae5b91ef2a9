// Package templates holds the files that quavon brings along, as a tree.
package templates

import "embed"

// Images has the declaration of the shipped images, images/images.yaml, and all
// that it names: Dockerfiles, their contexts with the pinned versions, the base.
//
//go:embed images
var Images embed.FS

// ValkeyUsers are Valkey's users; each @…_SHA256@ stands for the digest of a
// password.
//
//go:embed valkey/users.acl
var ValkeyUsers string

// Compose is the compose file of an installation, in the syntax of text/template.
//
//go:embed compose/compose.yaml
var Compose string
