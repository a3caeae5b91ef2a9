// Package templates holds the files that quavon brings along, as a tree.
package templates

import "embed"

// Images has the declaration of the shipped images, images/images.yaml, and all
// that it names: Dockerfiles, their contexts with the pinned versions, the base.
//
//go:embed images
var Images embed.FS
