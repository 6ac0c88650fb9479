//go:build linux

package proc

// ParseStat lets the fuzz test at the parser.
func ParseStat(b []byte) (state byte, start uint64, err error) {
	st, err := parseStat(b)
	return st.state, st.start, err
}
