// Package scan tests `quavon scan` in the real scanners image; see run.sh.
package scan
