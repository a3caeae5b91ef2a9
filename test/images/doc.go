// Package images makes real images, takes them in from every source, and runs the
// compatibility projects in them:
//
//	make images-test
//
// It needs root, mmdebstrap, a Docker Engine (test/docker) and, the first time, the
// package registries.
package images
