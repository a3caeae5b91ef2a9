package main

import (
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const staying = "staying"

// stay leaves a process that no signal but SIGKILL ends, and waits for its connection.
func stay() (string, error) {
	c := exec.Command("/proc/self/exe", staying)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	b := make([]byte, 8)
	n, err := said.Read(b)
	return string(b[:n]), err
}

// hold is that process.
func hold() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	c, err := net.Dial("tcp", door)
	if err != nil {
		os.Exit(5)
	}
	_, _ = os.Stdout.WriteString("holds")
	for {
		time.Sleep(time.Hour)
		runtime.KeepAlive(c)
	}
}

// stays counts the processes that stay has left, as everybody here can see them.
func stays() (string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && strings.Contains(string(line), "\x00"+staying+"\x00") {
			n++
		}
	}
	return strconv.Itoa(n), err
}
