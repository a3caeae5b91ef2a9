// Package install runs the command `quavon install` from an empty directory to its end
// and back, as one test: on a Docker Engine, with Valkey and gVisor, none of them faked.
package install
