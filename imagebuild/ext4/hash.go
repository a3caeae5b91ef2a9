package ext4

import "math/bits"

// hashName is the directory index's hash: half of MD4 over a name as unsigned
// bytes. The lowest bit of major is 0.
func hashName(name []byte, seed [4]uint32) (major, minor uint32) {
	const (
		blockLen = 32
		eof      = 0xfffffffe
	)
	buf := seed
	for len(name) > 0 {
		halfMD4(&buf, words(name))
		name = name[min(len(name), blockLen):]
	}
	major = buf[1] &^ 1
	if major == eof {
		major -= 2
	}
	return major, buf[2]
}

// words packs the first 32 bytes of a name, padded with its length.
func words(name []byte) (out [8]uint32) {
	pad := uint32(len(name)) | uint32(len(name))<<8
	pad |= pad << 16
	for i := range out {
		v := pad
		for _, c := range name[:min(4, len(name))] {
			v = v<<8 + uint32(c)
		}
		name = name[min(4, len(name)):]
		out[i] = v
	}
	return out
}

func halfMD4(buf *[4]uint32, in [8]uint32) {
	const k2, k3 = 0x5a827999, 0x6ed9eba1
	a, b, c, d := buf[0], buf[1], buf[2], buf[3]
	f := func(x, y, z uint32) uint32 { return z ^ x&(y^z) }
	g := func(x, y, z uint32) uint32 { return x&y + (x^y)&z }
	h := func(x, y, z uint32) uint32 { return x ^ y ^ z }
	rol := bits.RotateLeft32
	for i := 0; i < 8; i += 4 {
		a = rol(a+f(b, c, d)+in[i], 3)
		d = rol(d+f(a, b, c)+in[i+1], 7)
		c = rol(c+f(d, a, b)+in[i+2], 11)
		b = rol(b+f(c, d, a)+in[i+3], 19)
	}
	for i := 1; i >= 0; i-- {
		a = rol(a+g(b, c, d)+in[i]+k2, 3)
		d = rol(d+g(a, b, c)+in[i+2]+k2, 5)
		c = rol(c+g(d, a, b)+in[i+4]+k2, 9)
		b = rol(b+g(c, d, a)+in[i+6]+k2, 13)
	}
	for _, i := range [2]int{3, 1} {
		a = rol(a+h(b, c, d)+in[i]+k3, 3)
		d = rol(d+h(a, b, c)+in[i+4]+k3, 9)
		c = rol(c+h(d, a, b)+in[i-1]+k3, 11)
		b = rol(b+h(c, d, a)+in[i+3]+k3, 15)
	}
	buf[0] += a
	buf[1] += b
	buf[2] += c
	buf[3] += d
}
