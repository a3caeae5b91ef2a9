package toolchain

// synthetic replaces the files of /etc that would tell of the host's users and
// network, or that the sandbox needs to differ. The job's uid is sandbox.JobUID.
var synthetic = []struct{ name, content string }{
	{"passwd", `root:x:0:0:root:/root:/usr/sbin/nologin
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
quavon:x:60000:60000:job:/home/quavon:/bin/sh
quavon-agent:x:65533:65533:agent:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`},
	{"group", `root:x:0:
daemon:x:1:
bin:x:2:
tty:x:5:
users:x:100:
quavon:x:60000:
quavon-agent:x:65533:
nogroup:x:65534:
`},
	{"nsswitch.conf", `passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`},
	{"hosts", `127.0.0.1 localhost quavon
::1 localhost ip6-localhost ip6-loopback
`},
	{"hostname", "quavon\n"},
	// No resolver listens there, so that look-ups fail at once instead of
	// waiting for an answer.
	{"resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
	// The workspace may belong to somebody else on the host; inside, the job is
	// alone with it.
	{"gitconfig", "[safe]\n\tdirectory = *\n"},
}
