package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/api/client/clienttest/films"
)

// TestRecord: a recording is made, listed, fetched and removed.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "first.webm")
	steps(t,
		step{line: "record first get", status: 4, err: "no such recording"},
		step{line: "record first start", out: "r0001\n"},
		step{line: "record first start", status: 5, err: "is recorded already"},
		step{
			line: "record first",
			out: "RECORDING   STATE       BEGUN                  LENGTH   SIZE   PIXELS     CHAPTERS   BY   ENDED BY\n" +
				"r0001       recording   2026-01-02T03:04:05Z   0s       0 B    1280x800   1          t1   \n",
		},
		step{line: "record first stop", out: "r0001\n"},
		step{line: "record first stop", status: 5, err: "is not recorded"},
		step{
			line: "record first ls",
			out: "RECORDING   STATE      BEGUN                  LENGTH   SIZE   PIXELS     CHAPTERS   BY   ENDED BY\n" +
				"r0001       finished   2026-01-02T03:04:05Z   1m30s    11 B   1280x800   1          t1   stopped\n",
		},
		step{line: "record first get -o -", out: films.Video},
		step{line: "record first get r0001 -o " + file, out: file + ": 11 B\n"},
		step{line: "record first stop r0001", status: 2, err: "takes no recording"},
		step{line: "record first play", status: 2, err: "want start, stop"},
		step{line: "record first rm", status: 2, err: "needs the id"},
		step{line: "record first rm r0001"},
		step{line: "record first rm r0001", status: 4, err: "no recording"},
		step{line: "record first ls --json", out: "{\n  \"recordings\": []\n}\n"},
	)
	if got, err := os.ReadFile(file); err != nil || string(got) != films.Video {
		t.Errorf("%q, %v", got, err)
	}
}
