package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// limits probes use up what is bounded, each in a sandbox of its own: the sandbox may
// end by it.
var limits = []Probe{
	{ID: "G1-processes", Timeout: time.Minute, Run: startProcesses, Sub: wait},
	{ID: "G2-memory", Timeout: time.Minute, Run: useMemory},
	{ID: "G3-disk", Timeout: time.Minute, Run: fillDisk},
	{ID: "G4-processor", Timeout: time.Minute, Run: spin},
	{ID: "G5-output", Timeout: time.Minute, Run: flood},
}

// Params of the probes of limits, and the subs that say that all of it was had.
const (
	// ParamAmount is how much of the thing is asked for: processes, MiB, lines, or
	// milliseconds.
	ParamAmount = "amount"
	SubAll      = "all"
)

func (c *Context) amount() int {
	if v := c.Params[ParamAmount]; len(v) == 1 {
		if n, err := strconv.Atoi(v[0]); err == nil {
			return n
		}
	}
	return 0
}

// startProcesses starts processes that stay.
func startProcesses(c *Context) {
	ctx, cancel := context.WithCancelCause(context.Background()) //nolint:forbidigo // as in process
	defer cancel(errors.New("the probe is over"))
	c.TryFor(probeTime*4, SubAll, func() (string, error) {
		n := c.amount()
		for i := range n {
			cmd, err := command(ctx, c.Input, c.probe.ID, "wait")
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				return strconv.Itoa(i), err
			}
			go func() { _ = cmd.Wait() }() // it is killed in the end
		}
		time.Sleep(answerTime) // the last one's threads too
		return strconv.Itoa(n), nil
	})
}

// wait is a process that stays.
func wait(*Context, []string) (string, error) {
	time.Sleep(time.Minute)
	return "", nil
}

const mebibyte = 1 << 20

// useMemory writes to fresh memory.
func useMemory(c *Context) {
	var all [][]byte
	c.TryFor(probeTime*4, SubAll, func() (string, error) {
		for range c.amount() {
			b, err := unix.Mmap(-1, 0, mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return strconv.Itoa(len(all)), err
			}
			for i := 0; i < len(b); i += os.Getpagesize() {
				b[i] = 1
			}
			all = append(all, b)
		}
		return strconv.Itoa(len(all)), nil
	})
	runtime.KeepAlive(all)
}

// fillDisk writes to each place that a job has, until there is no more room, and then
// tries the other ways of taking some.
func fillDisk(c *Context) {
	var written int
	for _, dir := range []string{"/tmp", "/dev/shm", "/var/tmp", "/workspace"} {
		c.TryFor(probeTime, "write-"+strings.ReplaceAll(dir[1:], "/", "-"), func() (string, error) {
			n, err := fill(filepath.Join(dir, "probe-"+c.Nonce), c.amount())
			written += n
			return strconv.Itoa(n), err
		})
	}
	c.Try("allocate", func() (string, error) {
		f, err := os.Create(c.Scratch("allocate"))
		if err != nil {
			return "", err
		}
		defer f.Close()
		return "", unix.Fallocate(int(f.Fd()), 0, 0, int64(c.amount())*mebibyte)
	})
	c.Say("written", strconv.Itoa(written))
}

// fill writes MiB to a file and returns the bytes that it took.
func fill(path string, amount int) (int, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i)
	}
	total := 0
	for total < amount*mebibyte {
		n, err := f.Write(block)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// spin keeps processors busy.
func spin(c *Context) {
	end := time.Now().Add(time.Duration(c.amount()) * time.Millisecond)
	const threads = 4
	runtime.GOMAXPROCS(threads)
	done := make(chan int)
	for range threads {
		go func() {
			n := 0
			for time.Now().Before(end) {
				n++
			}
			done <- n
		}()
	}
	total := 0
	for range threads {
		total += <-done
	}
	c.Say(SubAll, strconv.Itoa(total))
}

// flood writes much.
func flood(c *Context) {
	text := strings.Repeat("x", MaxAnswer/2)
	for i := range c.amount() {
		c.Say(fmt.Sprintf("line-%d", i), text)
	}
	c.Say(SubAll, "")
}
