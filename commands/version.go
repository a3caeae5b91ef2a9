package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
)

// Version is stamped by the build: -ldflags "-X …/commands.Version=v1.2.3".
var Version string

// versionInfo is what quavon version tells.
type versionInfo struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	// Runsc and Guest are "" when they weren't found.
	Runsc        string `json:"runsc,omitempty"`
	RunscVersion string `json:"runsc_version,omitempty"`
	Guest        string `json:"guest,omitempty"`
}

type versionOptions struct {
	*program
	Output string
}

func newVersion(p *program) *cobra.Command {
	o := &versionOptions{program: p}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of quavon and what it uses",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return showVersion(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.Output, "output", "o", "text", "text or json")
	return cmd
}

func showVersion(ctx context.Context, o *versionOptions) error {
	v := versionInfo{Version: ownVersion(), Protocol: agent.ProtocolVersion}
	// A missing part is no failure here: to show it is what this is for.
	v.Guest, _ = o.findGuest()
	if path, err := o.findRunsc(""); err == nil {
		v.Runsc, v.RunscVersion = path, runscVersion(ctx, path)
	}
	switch o.Output {
	case "json":
		return o.writeJSON(v)
	case "text":
		_, err := fmt.Fprintf(o.IO.Out, "quavon %s\nprotocol %d\nrunsc %s\nquavon-guest %s\n",
			v.Version, v.Protocol, found(v.Runsc, v.RunscVersion), found(v.Guest, ""))
		return err
	}
	return &exitError{exitUsage, fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text or json")}
}

func found(path, version string) string {
	switch {
	case path == "":
		return "not found"
	case version == "":
		return path
	}
	return version + " at " + path
}

func ownVersion() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// runscVersion asks a runsc which one it is, "" when it doesn't say.
func runscVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("runsc --version doesn't end"))
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`runsc version (\S+)`).FindSubmatch(out)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// writeJSON writes the one document that stdout holds.
func (p *program) writeJSON(v any) error {
	enc := json.NewEncoder(p.IO.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
