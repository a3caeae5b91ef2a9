package compat

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed npm/*/package.json npm/*/package-lock.json python/*.txt reporters
var recipes embed.FS

// fetch returns the project's workspace below cache: its sources, all they need
// (a sandbox has no network) and our reporters. It is made once.
func (p *project) fetch(ctx context.Context, cache string) (string, error) {
	key, err := p.key()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%s-%s", p.Name, p.Version, key))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, ".fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	fill := map[ecosystem]func(context.Context, string) error{golang: p.fetchGo, npm: p.fetchNPM, python: p.fetchPython}
	if err := fill[p.Kind](ctx, tmp); err != nil {
		return "", fmt.Errorf("fetch %s %s: %w", p.Package, p.Version, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // public code, and another uid reads it
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// key changes when anything does that a workspace is made from.
func (p *project) key() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(recipes, ".", func(path string, d fs.DirEntry, err error) error {
		others := (strings.HasPrefix(path, "npm/") || strings.HasPrefix(path, "python/")) && !strings.Contains(path, "/"+p.Name)
		if err != nil || d.IsDir() || others {
			return err
		}
		data, err := recipes.ReadFile(path)
		fmt.Fprintln(h, path, len(data))
		h.Write(data)
		return err
	})
	fmt.Fprintln(h, p.Package, p.Version, p.Sum)
	return fmt.Sprintf("%x", h.Sum(nil)[:4]), err
}

// fetchGo puts the module at the workspace's root and its dependencies into vendor.
func (p *project) fetchGo(ctx context.Context, dir string) error {
	out, err := command(ctx, dir, "go", "mod", "download", "-json", p.Package+"@"+p.Version)
	if err != nil {
		return err
	}
	var mod struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &mod); err != nil {
		return err
	}
	if mod.Sum != p.Sum {
		return fmt.Errorf("its checksum is %s, not %s", mod.Sum, p.Sum)
	}
	// The module cache is read-only; the workspace isn't.
	if _, err := command(ctx, dir, "cp", "-r", "--no-preserve=mode", mod.Dir+"/.", dir); err != nil {
		return err
	}
	_, err = command(ctx, dir, "go", "mod", "vendor")
	return err
}

// fetchNPM installs the project and what its tests load by our lock file, then
// takes the project out of node_modules, where test runners don't look.
func (p *project) fetchNPM(ctx context.Context, dir string) error {
	recipe, err := fs.Sub(recipes, "npm/"+p.Name)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, recipe); err != nil {
		return err
	}
	// No package gets to run a script of its own here, outside a sandbox.
	if _, err := command(ctx, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "pkg"), os.DirFS(filepath.Join(dir, "node_modules", p.Package))); err != nil {
		return err
	}
	return writeReporters(dir)
}

// fetchPython installs what the tests load into .venv and unpacks the project's sdist to pkg.
func (p *project) fetchPython(ctx context.Context, dir string) error {
	requirements, err := recipes.ReadFile("python/" + p.Name + ".txt")
	if err != nil {
		return err
	}
	sdist := fmt.Sprintf("%s==%s --hash=sha256:%s\n", p.Package, p.Version, p.Sum)
	for name, text := range map[string]string{"requirements.txt": string(requirements), "sdist.txt": sdist} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	// The system's own Python: another one isn't in the sandbox.
	for _, c := range [][]string{
		{"/usr/bin/python3", "-m", "venv", ".venv"},
		{".venv/bin/python", "-m", "pip", "install", "-q", "--require-hashes", "--only-binary=:all:", "-r", "requirements.txt"},
		{".venv/bin/python", "-m", "pip", "download", "-q", "--require-hashes", "--no-deps", "--no-binary=" + p.Package, "-r", "sdist.txt"},
		{"mkdir", "pkg"},
		{"tar", "-xzf", fmt.Sprintf("%s-%s.tar.gz", p.Package, p.Version), "-C", "pkg", "--strip-components=1", "--no-same-owner"},
	} {
		if _, err := command(ctx, dir, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return writeReporters(dir)
}

// writeReporters puts the reporters where the project's Run looks for them.
func writeReporters(dir string) error {
	reporters, err := fs.Sub(recipes, "reporters")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, ".compat"), reporters)
}

// command runs a client in dir and returns its stdout; its stderr is in the error.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	if name[0] == '.' {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, exit.Stderr)
	}
	return out, err
}
