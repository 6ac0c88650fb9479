//go:build integration && cgo

package webm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// TestTools: Debian's ffmpeg and mkvtoolnix read the file, seek in it and find no
// fault.
func TestTools(t *testing.T) {
	f := open(t)
	w := create(t, f, config, chunks(t, video.VP9))
	cut := tool(t, "ffmpeg", "-v", "error", "-i", f.Name(), "-f", "null", "-")
	if cut != "" {
		t.Errorf("before it is finished: %s", cut)
	}
	if err := w.Finish(6*time.Second, marks); err != nil {
		t.Fatal(err)
	}
	var p struct {
		Streams []struct {
			Codec  string `json:"codec_name"`
			Width  int    `json:"width"`
			Height int    `json:"height"`
			Frames string `json:"nb_read_frames"`
		} `json:"streams"`
		Chapters []struct {
			Start string            `json:"start_time"`
			Tags  map[string]string `json:"tags"`
		} `json:"chapters"`
		Format struct {
			Name     string `json:"format_name"`
			Duration string `json:"duration"`
		} `json:"format"`
	}
	out := tool(t, "ffprobe", "-v", "error", "-of", "json", "-count_frames", "-show_streams", "-show_chapters", "-show_format", f.Name())
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Streams) != 1 || p.Streams[0].Codec != "vp9" || p.Streams[0].Width != width || p.Streams[0].Height != height || p.Streams[0].Frames != "60" {
		t.Errorf("streams: %+v", p.Streams)
	}
	if p.Format.Duration != "6.000000" || !strings.Contains(p.Format.Name, "webm") {
		t.Errorf("format: %+v", p.Format)
	}
	if c := p.Chapters; len(c) != len(marks) || c[1].Start != "2.500000" || c[1].Tags["title"] != marks[1].Title {
		t.Errorf("chapters: %+v", c)
	}
	// With cues it need not read what lies before.
	packets := tool(t, "ffprobe", "-v", "error", "-read_intervals", "4.5%+#1", "-show_entries", "packet=pts_time", "-of", "csv=p=0", f.Name())
	if got := strings.TrimSpace(packets); got != "4.000000" {
		t.Errorf("seeking to 4.5 s begins at %q", got)
	}
	if out := tool(t, "mkvinfo", "-a", f.Name()); strings.Count(out, "Cue point") != 3 || !strings.Contains(out, "Duration: 00:00:06") || strings.Count(out, "Chapter atom") != len(marks) {
		t.Error(out)
	}
}

// tool runs a program and answers all that it says.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s (scripts/deps.sh test installs it): %v: %s", name, err, out)
	}
	return string(out)
}
