package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/quavon/quavon/doctor/host"
)

// Sources are what a bundle is made from.
type Sources struct {
	Host host.Host
	// Runsc and Socket are "" when there is none.
	Runsc, Socket string
	// EnvFile is the installation's .env, "" for none.
	EnvFile string
	// Project is compose's name of the installation.
	Project string
	// Since bounds logs, as "24h".
	Since string
}

// Versions are of programs and systems, one a line; what can't be asked says why.
func (s Sources) Versions(ctx context.Context, own string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quavon: %s\n", own)
	if k, err := s.Host.Kernel(); err == nil {
		fmt.Fprintf(&b, "kernel: %s %s %s\n", k.System, k.Release, k.Machine)
	}
	if data, err := s.Host.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				fmt.Fprintf(&b, "system: %s\n", strings.Trim(strings.TrimSpace(name), `"`))
			}
		}
	}
	ask := func(name string, argv ...string) {
		out, err := s.Host.Run(ctx, argv...)
		if err != nil {
			out = err.Error()
		}
		fmt.Fprintf(&b, "%s: %s\n", name, strings.ReplaceAll(strings.TrimSpace(out), "\n", "; "))
	}
	if s.Runsc != "" {
		ask("runsc", s.Runsc, "--version")
	}
	ask("compose", "docker", "compose", "version", "--short")
	if s.Socket != "" {
		if a, err := s.Host.Get(ctx, s.Socket, "/version"); err == nil {
			fmt.Fprintf(&b, "engine: %s\n", strings.TrimSpace(string(a.Body)))
		}
	}
	return b.String()
}

// Configuration are files that have no secrets in them, by what they are called in
// the bundle. One that can't be read is left out.
func (s Sources) Configuration() map[string]string {
	out := map[string]string{}
	files := map[string]string{"daemon.json": "/etc/docker/daemon.json", "nftables.conf": "/etc/nftables.conf"}
	if s.EnvFile != "" {
		dir := path.Dir(s.EnvFile)
		for _, name := range []string{"compose.yaml", "compose.override.yaml", "images.lock.json"} {
			files[name] = path.Join(dir, name)
		}
	}
	for name, file := range files {
		if data, err := s.Host.ReadFile(file); err == nil {
			out[name] = string(data)
		}
	}
	return out
}

// journalUnits are the units whose journal is taken.
const journalUnits = "quavon*"

var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// logLines bounds each log.
const logLines = "2000"

// Logs are the newest lines of the installation's containers and units, by name.
func (s Sources) Logs(ctx context.Context) map[string]string {
	out := map[string]string{}
	journal, err := s.Host.Run(ctx, "journalctl", "--no-pager", "--lines="+logLines, "--since=-"+s.Since, "--unit="+journalUnits)
	if err == nil {
		out["journal.log"] = journal
	}
	for _, name := range s.containers(ctx) {
		// A container's log has both streams; docker prints them on its own two.
		text, err := s.Host.Run(ctx, "sh", "-c", `exec docker --host "unix://$0" logs --timestamps --tail `+logLines+
			` --since "$1" "$2" 2>&1`, s.Socket, s.Since, name)
		if err != nil {
			text += "\n" + err.Error()
		}
		out["container-"+name+".log"] = text
	}
	return out
}

// containers are the installation's, as the engine says: names from outside.
func (s Sources) containers(ctx context.Context) []string {
	if s.Socket == "" || !containerName.MatchString(s.Project) {
		return nil
	}
	filter := `%7B%22label%22%3A%5B%22com.docker.compose.project%3D` + s.Project + `%22%5D%7D`
	a, err := s.Host.Get(ctx, s.Socket, "/containers/json?all=true&filters="+filter)
	if err != nil {
		return nil
	}
	var list []struct{ Names []string }
	if json.Unmarshal(a.Body, &list) != nil {
		return nil
	}
	var names []string
	for _, c := range list {
		if len(c.Names) == 0 || len(names) == 50 {
			continue
		}
		if name := strings.TrimPrefix(c.Names[0], "/"); containerName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// Secrets are the values that must not leave, of the secret files beside .env and in
// .env itself, where a setting counts by its name.
func (s Sources) Secrets() []string {
	if s.EnvFile == "" {
		return nil
	}
	var out []string
	dir := path.Join(path.Dir(s.EnvFile), "secrets")
	names, _ := s.Host.ReadDir(dir) // without it there are none
	for _, name := range names {
		if data, err := s.Host.ReadFile(path.Join(dir, name)); err == nil {
			out = append(out, words(string(data))...)
		}
	}
	return append(out, host.EnvSecrets(s.Host, s.EnvFile)...)
}

// words are a secret file's content and, of one that is a list as an ACL, its parts:
// a password there stands behind ">" or "#".
func words(text string) []string {
	out := []string{text}
	for _, w := range strings.Fields(text) {
		if rest := strings.TrimLeft(w, "><#"); rest != w || len(w) >= longWord && !strings.ContainsAny(w[:1], "~%&+-") {
			out = append(out, rest)
		}
	}
	return out
}

// longWord is the least length of a word within a file of several that is taken for
// a secret: an ACL's own words are shorter.
const longWord = 16
