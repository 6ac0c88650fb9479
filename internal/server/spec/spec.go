// Package spec describes by hand, for the OpenAPI document, what huma does not
// see: the calls that stream.
package spec

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Path describes path parameters.
func Path(names ...string) []*huma.Param {
	list := make([]*huma.Param, 0, len(names))
	for _, n := range names {
		list = append(list, &huma.Param{Name: n, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	return list
}

// Query describes a query parameter.
func Query(name, typ, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: typ}}
}

// Must makes a parameter required.
func Must(p *huma.Param) *huma.Param {
	p.Required = true
	return p
}

// Header describes a header.
func Header(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Description: doc, Schema: &huma.Schema{Type: "string"}}
}

// Binary describes a body of bytes.
func Binary(mime string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mime: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
}

// Answers describes an answer of bytes.
func Answers(status int, doc, mime string) map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(status): {Description: doc, Content: Binary(mime)}}
}

// Switching describes the answer that makes a WebSocket.
func Switching() map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(http.StatusSwitchingProtocols): {Description: "WebSocket"}}
}
