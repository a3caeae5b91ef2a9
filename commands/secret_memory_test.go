package commands

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// inMemory looks through what a process has in its memory, and in files in memory, such as
// a sandbox's: for the value, and for any placeholder.
func (b *bank) inMemory(proc string) (value, placeholder bool) {
	look := func(text []byte) {
		value = value || b.in(text)
		placeholder = placeholder || bytes.Contains(text, []byte("quavon_secret_"))
	}
	readPrivate(proc, look)
	fds, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.Contains(to, "memfd:") || strings.Contains(to, "runsc-memory") {
			readData(fd, look)
		}
	}
	return value, placeholder
}

// readPrivate reads the writable memory that isn't a file's, as far as it is there.
func readPrivate(proc string, look func([]byte)) {
	mem, err := os.Open(filepath.Join(proc, "mem"))
	if err != nil {
		return // it has ended
	}
	defer mem.Close()
	smaps, err := os.ReadFile(filepath.Join(proc, "smaps"))
	if err != nil {
		return
	}
	var from, to, rss uint64
	var mode string
	var inode uint64
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x %s %*x %*s %d", &from, &to, &mode, &inode); n >= 3 {
			inode = 0
			if f := strings.Fields(line); len(f) >= 5 && f[4] != "0" {
				inode = 1
			}
			continue
		}
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &rss); n == 1 && rss > 0 && inode == 0 && strings.HasPrefix(mode, "rw") {
			readPieces(io.NewSectionReader(mem, int64(from), int64(to-from)), look)
		}
	}
}

// readData reads what a sparse file has.
func readData(path string, look func([]byte)) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for at := int64(0); ; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err != nil {
			return // no more
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return
		}
		readPieces(io.NewSectionReader(f, from, to-from), look)
		at = to
	}
}

// readPieces reads in pieces that overlap, so that nothing is cut.
func readPieces(r io.Reader, look func([]byte)) {
	const piece, overlap = 1 << 20, 256
	buf := make([]byte, 0, piece+overlap)
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+piece])
		buf = buf[:len(buf)+n]
		look(buf)
		if err != nil {
			return
		}
		buf = buf[:copy(buf, buf[len(buf)-overlap:])]
	}
}
