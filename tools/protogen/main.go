// Command protogen turns .proto files into Go like protoc with protoc-gen-go,
// without protoc: this module's go.mod pins the compiler and the generator.
//
//	protogen -out DIR FILE.proto…
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	out := flag.String("out", ".", "directory for the generated files")
	flag.Parse()
	for _, path := range flag.Args() {
		if err := generate(path, *out); err != nil {
			fmt.Fprintln(os.Stderr, "protogen:", err)
			os.Exit(1)
		}
	}
}

// generate writes the Go of one .proto file without imports into dir.
func generate(path, dir string) error {
	req, err := compile(path)
	if err != nil {
		return err
	}
	plugin, err := protogen.Options{}.New(req)
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		internal_gengo.GenerateFile(plugin, f)
	}
	plugin.SupportedFeatures = internal_gengo.SupportedFeatures
	plugin.SupportedEditionsMinimum = internal_gengo.SupportedEditionsMinimum
	plugin.SupportedEditionsMaximum = internal_gengo.SupportedEditionsMaximum
	res := plugin.Response()
	if res.Error != nil {
		return fmt.Errorf("%s: %s", path, res.GetError())
	}
	for _, f := range res.File {
		name := filepath.Join(dir, filepath.Base(f.GetName()))
		if err := os.WriteFile(name, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile parses the file and shapes it as protoc would for its plugin. Source
// information is kept: comments become Go comments.
func compile(path string) (*pluginpb.CodeGeneratorRequest, error) {
	name := filepath.Base(path)
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	}, nil
}
