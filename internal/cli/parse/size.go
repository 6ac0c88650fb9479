package parse

import (
	"math"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

// MiB reads a size such as 512M, 10G or 1T into MiB. Units are powers of 1,024;
// MiB and MB mean M, and so on. A unit is required.
func MiB(s string) (int64, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.ToUpper(s[len(digits):])
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
	factor := map[string]int64{"M": 1, "G": 1 << 10, "T": 1 << 20}[unit]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || factor == 0 {
		return 0, invalid("size %q is not a whole number with M, G or T, such as 10G", s)
	}
	if n == 0 || int64(n) > math.MaxInt64>>20/factor {
		return 0, invalid("size %q is out of range", s)
	}
	return int64(n) * factor, nil
}

// Display reads WIDTHxHEIGHT in pixels.
func Display(s string) (api.Display, error) {
	w, h, ok := strings.Cut(s, "x")
	width, err1 := strconv.ParseUint(w, 10, 16)
	height, err2 := strconv.ParseUint(h, 10, 16)
	if !ok || err1 != nil || err2 != nil {
		return api.Display{}, invalid("display %q is not WIDTHxHEIGHT, such as 1280x800", s)
	}
	if width < 320 || width > 7680 || height < 200 || height > 4320 {
		return api.Display{}, invalid("display %q is not within 320x200 and 7680x4320", s)
	}
	return api.Display{Width: int(width), Height: int(height)}, nil
}

// Region reads X,Y,WIDTHxHEIGHT in pixels.
func Region(s string) (*api.Region, error) {
	parts := strings.Split(s, ",")
	if len(parts) == 3 {
		w, h, ok := strings.Cut(parts[2], "x")
		n, err := Ints(parts[0], parts[1], w, h)
		if ok && err == nil && n[0] >= 0 && n[1] >= 0 && n[2] > 0 && n[3] > 0 {
			return &api.Region{X: n[0], Y: n[1], Width: n[2], Height: n[3]}, nil
		}
	}
	return nil, invalid("region %q is not X,Y,WIDTHxHEIGHT, such as 0,0,640x400", s)
}

// Ints reads whole numbers.
func Ints(words ...string) ([]int, error) {
	list := make([]int, len(words))
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 32)
		if err != nil {
			return nil, invalid("%q is not a whole number", w)
		}
		list[i] = int(n)
	}
	return list, nil
}

// Points reads X Y pairs of a path.
func Points(words []string) ([][2]int, error) {
	n, err := Ints(words...)
	if err != nil {
		return nil, err
	}
	if len(n) < 4 || len(n)%2 != 0 {
		return nil, invalid("a path needs at least two points, as X1 Y1 X2 Y2; %d numbers were given", len(n))
	}
	path := make([][2]int, 0, len(n)/2)
	for i := 0; i < len(n); i += 2 {
		path = append(path, [2]int{n[i], n[i+1]})
	}
	return path, nil
}
