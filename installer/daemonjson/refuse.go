package daemonjson

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// Refusals are the reasons for which dockerd doesn't start with the file although its
// own --validate finds nothing, as measured with 26.1.5. args are dockerd's.
func (f *File) Refusals(args []string) []string {
	var wrong []string
	defined := map[string]bool{"runc": true}
	for _, k := range f.keys {
		if strings.EqualFold(k.name, "runtimes") && k.name != "runtimes" {
			wrong = append(wrong, fmt.Sprintf("%q must be written runtimes", k.name))
		}
		if k.name != "runtimes" || f.isNull(k) {
			continue
		}
		for _, e := range members(f.text, k.value) {
			defined[e.name] = true
			why, err := dockerd.RefusedRuntime(e.name, f.text[e.value:e.end])
			if err != nil {
				why = "it is no object with path and runtimeArgs"
			}
			if why != "" {
				wrong = append(wrong, fmt.Sprintf("runtime %q: %s", e.name, why))
			}
		}
	}
	for _, added := range dockerd.Flags(args, "add-runtime") {
		name, _, _ := strings.Cut(added, "=")
		defined[name] = true
	}
	if def := f.defaultRuntime(); def != "" && !defined[def] && !strings.HasPrefix(def, "io.containerd.") {
		wrong = append(wrong, fmt.Sprintf("default-runtime names %q, which is not defined", def))
	}
	return wrong
}

func (f *File) defaultRuntime() (name string) {
	for _, k := range f.keys {
		if k.name == "default-runtime" {
			_ = json.Unmarshal(f.text[k.value:k.end], &name) // dockerd --validate knows types
		}
	}
	return name
}

// Twice are the keys that are also flags of dockerd, to which those in an object like
// proxies belong as well.
func (f *File) Twice(args []string) []string {
	var both []string
	for _, k := range f.keys {
		names := []string{k.name}
		if f.text[k.value] == '{' && !whole[k.name] {
			names = nil
			for _, m := range members(f.text, k.value) {
				names = append(names, m.name)
			}
		}
		for _, name := range names {
			if dockerd.Twice(args, name) {
				both = append(both, name)
			}
		}
	}
	return both
}

// whole are the keys whose objects dockerd doesn't take for more keys.
var whole = map[string]bool{
	"default-network-opts": true, "log-opts": true, "runtimes": true, "default-ulimits": true, "features": true, "builder": true,
}
