package registry

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
)

// file is one of an archive.
type file struct {
	name, text string
	mode       int64
}

func zipped(tb testing.TB, files ...file) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func tgz(tb testing.TB, files ...file) []byte {
	tb.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text))})
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := g.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func sum256(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Pip adds a wheel and its index, and returns what pip is told of a registry at base.
func (r *Registry) Pip(tb testing.TB, base string) map[string]string {
	tb.Helper()
	const module, info = "deskfork_proof", "deskfork_proof-" + Version + ".dist-info/"
	wheel := zipped(tb,
		file{name: module + ".py", text: "def main():\n    print('" + Says + "')\n"},
		file{name: info + "METADATA", text: "Metadata-Version: 2.1\nName: " + Name + "\nVersion: " + Version + "\n"},
		file{name: info + "WHEEL", text: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		file{name: info + "entry_points.txt", text: "[console_scripts]\n" + Name + " = " + module + ":main\n"},
		file{name: info + "RECORD", text: module + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "entry_points.txt,,\n" + info + "RECORD,,\n"},
	)
	const name = module + "-" + Version + "-py3-none-any.whl"
	r.Add("/pip/files/"+name, wheel)
	r.Add("/pip/simple/"+Name+"/", fmt.Appendf(nil, `<!DOCTYPE html><a href="../../files/%s#sha256=%s">%s</a>`, name, sum256(wheel), name))
	return map[string]string{"PIP_INDEX_URL": base + "/pip/simple/"}
}

// Npm adds a tarball and its document, and returns what npm is told.
func (r *Registry) Npm(tb testing.TB, base string) map[string]string {
	tb.Helper()
	about := map[string]any{"name": Name, "version": Version, "bin": map[string]string{Name: "index.js"}}
	text, err := json.Marshal(about)
	if err != nil {
		tb.Fatal(err)
	}
	ball := tgz(tb, file{"package/package.json", string(text), 0o644}, file{"package/index.js", "#!/usr/bin/env node\nconsole.log('" + Says + "')\n", 0o755})
	sum := sha512.Sum512(ball)
	about["dist"] = map[string]string{
		"tarball": base + "/npm/" + Name + "/-/" + Name + "-" + Version + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	doc, err := json.Marshal(map[string]any{
		"name": Name, "dist-tags": map[string]string{"latest": Version}, "versions": map[string]any{Version: about},
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.Add("/npm/"+Name, doc)
	r.Add("/npm/"+Name+"/-/"+Name+"-"+Version+".tgz", ball)
	return map[string]string{"NPM_CONFIG_REGISTRY": base + "/npm/"}
}

// Go adds a module, and returns what go is told.
func (r *Registry) Go(tb testing.TB, base string) map[string]string {
	tb.Helper()
	const at, mod = "/go/" + GoPath + "/@v/", "module " + GoPath + "\n"
	const in = GoPath + "@v" + Version + "/"
	r.Add(at+"list", []byte("v"+Version+"\n"))
	r.Add(at+"v"+Version+".info", []byte(`{"Version":"v`+Version+`"}`))
	r.Add(at+"v"+Version+".mod", []byte(mod))
	r.Add(at+"v"+Version+".zip", zipped(tb, file{name: in + "go.mod", text: mod}, file{name: in + "main.go", text: `package main

import "os"

func main() { os.Stdout.WriteString("` + Says + `\n") }
`}))
	return map[string]string{"GOPROXY": base + "/go", "GOSUMDB": "off", "GOTOOLCHAIN": "local"}
}

// Cargo adds a crate, whose index is a Git repository in dir: the one protocol that
// all of cargo's versions know. The environment is that of this machine.
func (r *Registry) Cargo(tb testing.TB, base, dir string) map[string]string {
	tb.Helper()
	const in = Name + "-" + Version + "/"
	const about = "[package]\nname = \"" + Name + "\"\nversion = \"" + Version + "\"\nedition = \"2018\"\n"
	crate := tgz(tb,
		file{in + "Cargo.toml", about, 0o644},
		file{in + "Cargo.lock", "version = 3\n\n[[package]]\nname = \"" + Name + "\"\nversion = \"" + Version + "\"\n", 0o644},
		file{in + "src/main.rs", "fn main() { println!(\"" + Says + "\"); }\n", 0o644},
	)
	r.Add("/cargo/"+Name+"/"+Version+"/download", crate)
	index := filepath.Join(dir, "index")
	write(tb, 0o644, `{"dl":"`+base+`/cargo"}`, index, "config.json")
	write(tb, 0o644, fmt.Sprintf(`{"name":%q,"vers":%q,"deps":[],"cksum":%q,"features":{},"yanked":false}`+"\n", Name, Version, sum256(crate)), index, "de", "sk", Name)
	tool(tb, index, "git", "init", "-q", "-b", "master")
	tool(tb, index, "git", "add", ".")
	tool(tb, index, "git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "commit", "-q", "-m", "index")
	write(tb, 0o644, "[source.crates-io]\nreplace-with = \"proof\"\n[source.proof]\nregistry = \"file://"+index+"\"\n", dir, "home", "config.toml")
	return map[string]string{"CARGO_HOME": filepath.Join(dir, "home")}
}

// Gem adds a gem with its indexes, which ruby builds in dir. GEMRC names a file with
// GemRC's text.
func (r *Registry) Gem(tb testing.TB, dir string) {
	tb.Helper()
	write(tb, 0o755, "#!/usr/bin/env ruby\nputs '"+Says+"'\n", dir, "source", "bin", Name)
	write(tb, 0o644, "Gem::Specification.new do |s|\n  s.name = '"+Name+"'\n  s.version = '"+Version+"'\n  s.summary = 'a proof'\n"+
		"  s.authors = ['nobody']\n  s.executables = ['"+Name+"']\n  s.files = ['bin/"+Name+"']\nend\n", dir, "source", "it.gemspec")
	write(tb, 0o644, "", dir, "site", "gems", ".keep")
	tool(tb, filepath.Join(dir, "source"), "gem", "build", "--silent", "--output", filepath.Join(dir, "site", "gems", Name+"-"+Version+".gem"), "it.gemspec")
	tool(tb, dir, "gem", "generate_index", "--silent", "--directory", filepath.Join(dir, "site"))
	r.addDir(tb, "/gem", filepath.Join(dir, "site"))
}

// GemRC is what gem reads of a registry at base.
func GemRC(base string) string { return ":sources:\n- " + base + "/gem/\n" }
