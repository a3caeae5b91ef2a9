package commands

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a number of bytes as a flag: 512, 64k, 4GiB. Units are powers of
// 1024, whether written K, KB or KiB, as container tools have it.
type byteSize int64

var errSize = errors.New("write a size such as 512MiB, 4G or 0")

// sizeUnits are in rising order; index is the power of 1024.
const sizeUnits = "bkmgt"

func (b *byteSize) Set(s string) error {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(s[len(digits):]))
	power := 0
	if unit != "" {
		power = strings.IndexByte(sizeUnits, unit[0])
		rest := unit[1:]
		if power < 0 || (rest != "" && rest != "b" && rest != "ib") || (power == 0 && rest != "") {
			return errSize
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return errSize
	}
	n *= math.Pow(1024, float64(power))
	if n > 1<<60 {
		return errSize
	}
	*b = byteSize(n)
	return nil
}

func (b *byteSize) String() string { return formatSize(int64(*b)) }

// Type names the value in help texts.
func (b *byteSize) Type() string { return "size" }

// formatSize writes n in the largest unit that needs no fraction.
func formatSize(n int64) string {
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len(sizeUnits)-1 {
		n /= 1024
		unit++
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d%ciB", n, sizeUnits[unit]-'a'+'A')
}
