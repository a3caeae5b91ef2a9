package runtime

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
)

// write1 are the instructions that write what stands behind them, len bytes, and end.
// The length is put at lengthAt.
var write1 = map[string]struct {
	code     []byte
	lengthAt int
}{
	// mov eax,1; mov edi,1; lea rsi,[rip+16]; mov edx,len; syscall; mov eax,60; xor edi,edi; syscall
	"amd64": {[]byte("\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00\x48\x8d\x35\x10\x00\x00\x00\xba\x00\x00\x00\x00" +
		"\x0f\x05\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05"), 18},
	// mov x0,#1; adr x1,#32; ldr w2,#24; mov x8,#64; svc #0; mov x0,#0; mov x8,#93; svc #0 is 32 bytes, length, text
	"arm64": {[]byte("\x20\x00\x80\xd2\x01\x01\x00\x10\xc2\x00\x00\x18\x08\x08\x80\xd2\x01\x00\x00\xd4" +
		"\x00\x00\x80\xd2\xa8\x0b\x80\xd2\x01\x00\x00\xd4\x00\x00\x00\x00"), 32},
}

// program is a static program of this machine that prints a text, whatever it is asked:
// what this package looks at in a runsc, in a file that is made in no time.
func program(text string) []byte {
	made := write1[goruntime.GOARCH]
	code := bytes.Clone(made.code)
	binary.LittleEndian.PutUint32(code[made.lengthAt:], uint32(len(text)))
	return image(machines[goruntime.GOARCH], append(code, text...), elf.PT_LOAD)
}

// image is a program file of one segment, of the kinds that are given.
func image(machine elf.Machine, code []byte, kinds ...elf.ProgType) []byte {
	const base, head, entry = 0x400000, 64, 56
	at := uint64(head + entry*len(kinds))
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	put(elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Entry: base + at, Phoff: head,
		Ehsize: head, Phentsize: entry, Phnum: uint16(len(kinds)), Shentsize: 64,
	})
	size := at + uint64(len(code))
	for _, kind := range kinds {
		put(elf.Prog64{
			Type: uint32(kind), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000,
		})
	}
	b.Write(code)
	return b.Bytes()
}

func version(release string) string { return "runsc version " + release + "\nspec: 1.1.0-rc.1\n" }

// writeRunsc puts a runsc into dir, with helpers when they are named.
func writeRunsc(t *testing.T, dir string, data []byte, names ...string) string {
	t.Helper()
	path := filepath.Join(dir, "runsc")
	files := map[string][]byte{path: data}
	for _, name := range names {
		files[filepath.Join(dir, helpers, name)] = data
	}
	// As in writeProgram.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for path, data := range files {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestCheckProgram covers cases GV-03 and GV-17 for a runsc that isn't in an archive.
func TestCheckProgram(t *testing.T) {
	t.Parallel()
	other := elf.EM_AARCH64
	if machines[goruntime.GOARCH] == other {
		other = elf.EM_X86_64
	}
	own := machines[goruntime.GOARCH]
	for name, c := range map[string]struct {
		data    []byte
		helpers []string
		release string // or
		want    string
	}{
		"of one piece":         {data: program(version("release-20260803.0")), release: "release-20260803.0"},
		"our own":              {data: program(version("release-20260905-abcdef0")), release: "release-20260905-abcdef0"},
		"with helpers":         {program(version("release-20260907.0")), []string{"gvisor_sentry"}, "release-20260907.0", ""},
		"without helpers":      {data: program(version("release-20260907.0")), want: "needs gvisor-bin beside it"},
		"dynamic":              {data: image(own, []byte{0}, elf.PT_LOAD, elf.PT_INTERP), want: "needs a loader"},
		"of another machine":   {data: image(other, []byte{0}, elf.PT_LOAD), want: "this machine is"},
		"that can't be run":    {data: image(own, []byte{0}, elf.PT_NOTE), want: "--version says"},
		"something else":       {data: program("runc version 1.1.5"), want: "--version says"},
		"a script":             {data: []byte("#!/bin/sh\necho runsc version x\n"), want: "is no program"},
		"nothing":              {data: nil, want: "is no program"},
		"cut":                  {data: program(version("x"))[:70], want: "is no program"},
		"a version with marks": {data: program("runsc version ../../x"), release: ".."},
	} {
		path := writeRunsc(t, t.TempDir(), c.data, c.helpers...)
		release, err := checkProgram(t.Context(), path)
		if c.want == "" && (err != nil || release != c.release) {
			t.Errorf("%s: %q, %v", name, release, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, release, err, c.want)
		}
	}
}
