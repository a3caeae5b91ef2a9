// Package docs holds the pages that commands show.
package docs

import _ "embed"

// Doctor is the page of quavon doctor, with a heading for each code.
//
//go:embed doctor.md
var Doctor string
