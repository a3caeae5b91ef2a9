module github.com/quavon/quavon

go 1.26.0
