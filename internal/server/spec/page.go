package spec

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// docsPage lists the operations without a script, so that it works offline.
var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Deskfork API</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{background:#8882;padding:.1em .3em}li{margin:.4em 0}</style>
<h1>Deskfork API</h1>
<p>{{.Description}} The full description is at <a href="/openapi.json">/openapi.json</a> and <a href="/openapi.yaml">/openapi.yaml</a>.</p>
<ul>{{range .Operations}}<li><code>{{.Method}} {{.Path}}</code> {{.Summary}}</li>{{end}}</ul></html>
`))

type docsRow struct{ Method, Path, Summary string }

// Page serves the list of a document's operations.
func Page(doc *huma.OpenAPI, w http.ResponseWriter) {
	var rows []docsRow
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				rows = append(rows, docsRow{op.Method, path, op.Summary})
			}
		}
	}
	slices.SortFunc(rows, func(a, b docsRow) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = docsPage.Execute(w, map[string]any{"Description": doc.Info.Description, "Operations": rows}) // the client may be gone
}
