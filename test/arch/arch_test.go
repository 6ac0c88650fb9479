package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/deskfork/deskfork/"

// pkg is what `go list` says of one package.
type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,GoFiles,CgoFiles,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		all = append(all, p)
	}
}

// layer orders the folders: a package may import its own layer and lower ones.
func layer(name string) int {
	switch {
	case strings.HasPrefix(name, "internal/x/"), name == "web": // pages, which are data
		return 0
	case strings.HasPrefix(name, "pkg/"):
		return 1
	case strings.HasPrefix(name, "internal/host"), strings.HasPrefix(name, "internal/guestd"), strings.HasPrefix(name, "internal/guesthelper"):
		return 2
	case strings.HasPrefix(name, "internal/"):
		return 3
	case strings.HasPrefix(name, "cmd/"):
		return 4
	default: // test/, images/
		return 5
	}
}

// TestArrowsGoDown: cmd → internal (doors) → internal (use cases) → pkg → internal/x.
func TestArrowsGoDown(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if ours && layer(to) > layer(p.name()) {
				t.Errorf("%s imports %s: arrows go down only", p.name(), to)
			}
		}
	}
}

// noun is the vocabulary package above an adapter: pkg/vm for pkg/vm/qemu.
func noun(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) < 2 || parts[0] != "pkg" {
		return ""
	}
	return path.Join(parts[0], parts[1])
}

// crossings are the arrows from one noun to another that are meant.
var crossings = map[string][]string{
	"pkg/vm":    {},
	"pkg/image": {},
	// GUI verbs and doors speak the wire types.
	"pkg/gui": {"pkg/api", "pkg/desktop"},
}

// TestNounsStandAlone: packages below one noun import no other noun; the glue
// between nouns lives in internal/host and cmd.
func TestNounsStandAlone(t *testing.T) {
	for _, p := range packages(t) {
		from := noun(p.name())
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if n := noun(to); ours && from != "" && n != "" && n != from && !slices.Contains(crossings[from], n) {
				t.Errorf("%s imports %s: nouns meet in internal/host only", p.name(), to)
			}
		}
	}
}

// TestAdaptersDoNotMeet: siblings below a noun do not import each other, but
// for the contract's own test kit and the families named here.
func TestAdaptersDoNotMeet(t *testing.T) {
	families := map[string][]string{
		"pkg/vm/qemu":         {"pkg/vm/qmp"},
		"pkg/desktop/inject":  {"pkg/desktop/keysym"},
		"pkg/desktop/rfb":     {"pkg/desktop/keysym"},
		"pkg/desktop/capture": {},
		"pkg/desktop/stream":  {"pkg/desktop/video"},
		"pkg/desktop/rtc":     {"pkg/desktop/stream", "pkg/desktop/video"},
		"pkg/guest/client":    {"pkg/guest/mux"},
		// The decision before the transaction.
		"pkg/session/transaction": {"pkg/session/plan"},

		"pkg/workspace/checkpoint": {"pkg/workspace/chunk"},
	}
	for _, p := range packages(t) {
		from := sibling(p.name())
		for _, imp := range p.Imports {
			name, ours := strings.CutPrefix(imp, module)
			to := sibling(name)
			if !ours || from == "" || to == "" || from == to || noun(from) != noun(to) {
				continue
			}
			if !slices.Contains(families[from], to) {
				t.Errorf("%s imports %s: adapters never import each other", p.name(), name)
			}
		}
	}
}

// sibling is the adapter a package belongs to: pkg/vm/qemu for pkg/vm/qemu/accel.
func sibling(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) < 3 || parts[0] != "pkg" {
		return ""
	}
	return path.Join(parts[:3]...)
}

// TestVocabularyIsStandard: a noun's own package depends on the standard
// library alone.
func TestVocabularyIsStandard(t *testing.T) {
	for _, p := range packages(t) {
		if noun(p.name()) != p.name() {
			continue
		}
		for _, imp := range p.Imports {
			if strings.Contains(strings.Split(imp, "/")[0], ".") && !allowedInVocabulary(p.name(), imp) {
				t.Errorf("%s imports %s: a vocabulary package depends on the standard library alone", p.name(), imp)
			}
		}
	}
}

func allowedInVocabulary(_, imp string) bool {
	return strings.HasPrefix(imp, module+"internal/x/")
}

// homes says which folder a third-party library may be imported from.
var homes = map[string][]string{
	"github.com/digitalocean/go-qemu":        {"pkg/vm/qmp"},
	"github.com/containers/gvisor-tap-vsock": {"pkg/vm/vmnet"},
	"gvisor.dev/gvisor":                      {"pkg/vm/vmnet"},
	"github.com/go-vgo/robotgo":              {"internal/guesthelper"},
	"github.com/kbinani/screenshot":          {"internal/guesthelper"},
	"github.com/jezek/xgb":                   {"internal/guesthelper"},
	"modernc.org/sqlite":                     {"internal/host", "pkg/session/sqlstore", "pkg/billing/sqlstore"},
	"github.com/pressly/goose/v3":            {"internal/host", "pkg/session/sqlstore", "pkg/billing/sqlstore"},
	"github.com/jackc/pgx/v5":                {"pkg/session/sqlstore", "pkg/billing/sqlstore"},
	"github.com/danielgtaylor/huma/v2":       {"internal/server"},
	"github.com/spf13/cobra":                 {"cmd", "internal/cli"},
	"github.com/creack/pty":                  {"internal/guestd"},
	"github.com/fsnotify/fsnotify":           {"internal/guestd", "internal/guesthelper"},
	"github.com/prometheus/client_golang":    {"internal/server", "internal/host"},
	"github.com/miekg/dns":                   {"pkg/vm/vmnet"},
	"github.com/insomniacslk/dhcp":           {"pkg/vm/vmnet"},
	"go.yaml.in/yaml/v3":                     {"pkg/image/build"},
	"github.com/minio/minio-go/v7":           {"pkg/blob/s3"},
	"filippo.io/age":                         {"pkg/workspace/seal"},
	"github.com/pion":                        {"pkg/desktop/rtc"},
	"github.com/at-wat/ebml-go":              {"pkg/desktop/webm"},
}

// TestLibrariesHaveOneHome keeps a third-party library behind one folder.
func TestLibrariesHaveOneHome(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for lib, where := range homes {
				if !strings.HasPrefix(imp+"/", lib+"/") || slices.ContainsFunc(where, func(w string) bool {
					return strings.HasPrefix(p.name()+"/", w+"/")
				}) {
					continue
				}
				t.Errorf("%s imports %s: its home is %s", p.name(), imp, strings.Join(where, ", "))
			}
		}
	}
}

// TestPackagesAreDocumented: each package says what it is.
func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles)+len(p.CgoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}
