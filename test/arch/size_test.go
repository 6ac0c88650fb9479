package arch_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// Limits on size; aims are a third of them.
const (
	maxFileLines     = 400
	maxFuncLines     = 80
	maxPackageLines  = 2000
	maxMethodsOfType = 20
)

// TestFilesOfTestsAreReadable holds test files, those behind build tags too, to
// the limit of all files.
func TestFilesOfTestsAreReadable(t *testing.T) {
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(src, []byte("\n")); lines > maxFileLines {
				t.Errorf("%s/%s has %d lines, limit %d", p.name(), filepath.Base(file), lines, maxFileLines)
			}
		}
	}
}

// TestSizes holds files, functions, packages and types below their limits.
func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		total, methods := 0, map[string]int{}
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.Count(src, []byte("\n"))
			total += lines
			if lines > maxFileLines {
				t.Errorf("%s/%s has %d lines, limit %d", p.name(), name, lines, maxFileLines)
			}
			checkFuncs(t, p.name()+"/"+name, src, methods)
		}
		if total > maxPackageLines {
			t.Errorf("%s has %d lines, limit %d: split it by noun", p.name(), total, maxPackageLines)
		}
		for typ, n := range methods {
			if n > maxMethodsOfType {
				t.Errorf("%s.%s has %d exported methods, limit %d", p.name(), typ, n, maxMethodsOfType)
			}
		}
	}
}

func checkFuncs(t *testing.T, name string, src []byte, methods map[string]int) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line; n > maxFuncLines {
			t.Errorf("%s: %s has %d lines, limit %d", name, fn.Name.Name, n, maxFuncLines)
		}
		if fn.Recv != nil && fn.Name.IsExported() {
			methods[receiver(fn.Recv.List[0].Type)]++
		}
	}
}

func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}
