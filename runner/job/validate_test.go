package job

import (
	"math"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

func valid() Spec {
	return Spec{
		ID:   "job-1",
		Root: Root{Kind: RootHost},
		Mounts: []Mount{
			{Source: "/src", Target: WorkspaceDir, Mode: MountOverlay, Protect: []string{".git"}},
			{Source: "/opt/tool", Target: "/opt/tool", Mode: MountReadOnly},
		},
		Steps:   []Step{{Argv: []string{"true"}, Env: []string{"A=b", "EMPTY="}, Dir: "/workspace"}},
		Limits:  Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 10, Disk: 1 << 30, Output: 1, Wall: 1},
		Collect: []string{"reports/**/*.xml"},
		Changes: ChangesContent,
	}
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Spec){
		"full":            func(*Spec) {},
		"no limits":       func(s *Spec) { s.Limits = Limits{} },
		"image":           func(s *Spec) { s.Root = Root{Kind: RootImage, Image: "sha256:" + strings.Repeat("0a", 32)} },
		"dots in a name":  func(s *Spec) { s.Collect = []string{"..a/b..c"} },
		"no workspace":    func(s *Spec) { s.Mounts, s.Changes = nil, ChangesNone },
		"sibling targets": func(s *Spec) { s.Mounts[1].Target = "/workspace2" },
		"home cache":      func(s *Spec) { s.Mounts[1].Target = "/home/quavon/.cache" },
	} {
		s := valid()
		edit(&s)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*Spec)
		want string
	}{
		"id empty":         {func(s *Spec) { s.ID = "" }, "job id"},
		"id option":        {func(s *Spec) { s.ID = "-x" }, "job id"},
		"id path":          {func(s *Spec) { s.ID = "a/b" }, "job id"},
		"id case":          {func(s *Spec) { s.ID = "A" }, "job id"},
		"id long":          {func(s *Spec) { s.ID = strings.Repeat("a", 65) }, "job id"},
		"root kind":        {func(s *Spec) { s.Root.Kind = "" }, "root.kind"},
		"host with image":  {func(s *Spec) { s.Root.Image = "x" }, "root.image"},
		"image by tag":     {func(s *Spec) { s.Root = Root{Kind: RootImage, Image: "debian:12"} }, "root.image"},
		"source relative":  {func(s *Spec) { s.Mounts[0].Source = "src" }, "mounts[0].source"},
		"source unclean":   {func(s *Spec) { s.Mounts[0].Source = "/src/../etc" }, "mounts[0].source"},
		"target root":      {func(s *Spec) { s.Mounts[1].Target = "/" }, "mounts[1].target"},
		"target agent":     {func(s *Spec) { s.Mounts[1].Target = "/.quavon/scratch" }, "mounts[1].target"},
		"target proc":      {func(s *Spec) { s.Mounts[1].Target = "/proc/1" }, "mounts[1].target"},
		"target etc":       {func(s *Spec) { s.Mounts[1].Target = "/etc" }, "mounts[1].target"},
		"target NUL":       {func(s *Spec) { s.Mounts[1].Target = "/a\x00" }, "mounts[1].target"},
		"targets equal":    {func(s *Spec) { s.Mounts[1].Target = WorkspaceDir }, "overlaps"},
		"targets nested":   {func(s *Spec) { s.Mounts[1].Target = WorkspaceDir + "/v" }, "overlaps"},
		"mount mode":       {func(s *Spec) { s.Mounts[0].Mode = "rw" }, "mounts[0].mode"},
		"protect escapes":  {func(s *Spec) { s.Mounts[0].Protect = []string{"../x"} }, "mounts[0].protect"},
		"protect absolute": {func(s *Spec) { s.Mounts[0].Protect = []string{"/x"} }, "mounts[0].protect"},
		"no steps":         {func(s *Spec) { s.Steps = nil }, "job steps"},
		"too many steps":   {func(s *Spec) { s.Steps = make([]Step, 257) }, "job steps"},
		"argv empty":       {func(s *Spec) { s.Steps[0].Argv = nil }, "steps[0].argv"},
		"argv NUL":         {func(s *Spec) { s.Steps[0].Argv = []string{"a\x00"} }, "NUL"},
		"argv huge":        {func(s *Spec) { s.Steps[0].Argv = []string{strings.Repeat("a", 1<<18)} }, "steps[0].argv has 262145 bytes"},
		"argv many":        {func(s *Spec) { s.Steps[0].Argv = make([]string, 9000); s.Steps[0].Argv[0] = "a" }, "in 9000 strings"},
		"env huge":         {func(s *Spec) { s.Steps[0].Env = []string{"A=" + strings.Repeat("a", 1<<18)} }, "steps[0].env"},
		"env NUL":          {func(s *Spec) { s.Steps[0].Env = []string{"A=\x00"} }, "NUL"},
		"env without =":    {func(s *Spec) { s.Steps[0].Env = []string{"A"} }, "steps[0].env"},
		"env without key":  {func(s *Spec) { s.Steps[0].Env = []string{"=x"} }, "steps[0].env"},
		"dir relative":     {func(s *Spec) { s.Steps[0].Dir = "x" }, "steps[0].dir"},
		"timeout":          {func(s *Spec) { s.Steps[0].Timeout = -1 }, "steps[0].timeout"},
		"network":          {func(s *Spec) { s.Steps[0].Network = "host" }, "steps[0].network"},
		"memory tiny":      {func(s *Spec) { s.Limits.Memory = 1 }, "limits.memory"},
		"pids huge":        {func(s *Spec) { s.Limits.Pids = 999_999_999_999 }, "limits.pids"},
		"pids negative":    {func(s *Spec) { s.Limits.Pids = -1 }, "limits.pids"},
		"cpus NaN":         {func(s *Spec) { s.Limits.CPUs = math.NaN() }, "limits.cpus"},
		"cpus negative":    {func(s *Spec) { s.Limits.CPUs = -1 }, "limits.cpus"},
		"cpus infinite":    {func(s *Spec) { s.Limits.CPUs = math.Inf(1) }, "limits.cpus"},
		"changes":          {func(s *Spec) { s.Changes = "all" }, "job changes"},
		"changes of what":  {func(s *Spec) { s.Mounts = nil }, "job changes"},
		"glob absolute":    {func(s *Spec) { s.Collect = []string{"/etc/*"} }, "collect[0]"},
		"glob parent":      {func(s *Spec) { s.Collect = []string{"a/../../b"} }, "collect[0]"},
		"glob broken":      {func(s *Spec) { s.Collect = []string{"a["} }, "collect[0]"},
		"glob empty":       {func(s *Spec) { s.Collect = []string{""} }, "collect[0]"},
	} {
		s := valid()
		c.edit(&s)
		err := s.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a fault naming %q", name, err, c.want)
			continue
		}
		if fault.Code(err) != string(ReasonRejected) || fault.Hint(err) == "" {
			t.Errorf("%s: code %q hint %q, want rejected and a hint", name, fault.Code(err), fault.Hint(err))
		}
	}
}
