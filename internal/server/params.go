package server

import (
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// params reads the query of a stream and gathers every fault.
type params struct {
	r      *http.Request
	faults []api.FieldError
}

func (p *params) bad(name, message string) {
	p.faults = append(p.faults, api.FieldError{Location: "query." + name, Message: message})
}

// err is what was wrong with all that was read; nil when nothing was.
func (p *params) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = p.faults
	return e
}

func (p *params) text(name string) string { return p.r.URL.Query().Get(name) }

func (p *params) required(name string) string {
	v := p.text(name)
	if v == "" {
		p.bad(name, "required")
	}
	return v
}

// one reads one of the values, the first of which is the default.
func (p *params) one(name string, values ...string) string {
	v := orText(p.text(name), values[0])
	for _, ok := range values {
		if v == ok {
			return v
		}
	}
	p.bad(name, "want one of "+strconv.Quote(values[0])+" and its like")
	return values[0]
}

func (p *params) bool(name string) bool {
	v := p.text(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		p.bad(name, "want true or false")
	}
	return b
}

func (p *params) int64(name string, def int64) int64 {
	v := p.text(name)
	if v == "" {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		p.bad(name, "want an integer")
	}
	return n
}

// between is int64 within bounds.
func (p *params) between(name string, def, low, high int64) int {
	n := p.int64(name, def)
	if n < low || n > high {
		p.bad(name, "want "+strconv.FormatInt(low, 10)+" to "+strconv.FormatInt(high, 10))
		return int(low)
	}
	return int(n)
}

// mode reads permission bits in octal; 0 when absent.
func (p *params) mode(name string) uint32 {
	v := p.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o7777 {
		p.bad(name, "want permission bits in octal, e.g. 0644")
	}
	return uint32(n)
}

// wantsSocket refuses a request that is no WebSocket handshake.
func wantsSocket(r *http.Request) error {
	if websocket.IsWebSocketUpgrade(r) {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "this is a WebSocket: send an upgrade")
	e.Status, e.Title = http.StatusUpgradeRequired, http.StatusText(http.StatusUpgradeRequired)
	return e
}

// Descriptions of streams in the OpenAPI document.

func pathParams(names ...string) []*huma.Param {
	list := make([]*huma.Param, 0, len(names))
	for _, n := range names {
		list = append(list, &huma.Param{Name: n, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	return list
}

func query(name, typ, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: typ}}
}

func must(p *huma.Param) *huma.Param {
	p.Required = true
	return p
}

func header(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Description: doc, Schema: &huma.Schema{Type: "string"}}
}

func binary(mime string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mime: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
}

func answers(status int, doc, mime string) map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(status): {Description: doc, Content: binary(mime)}}
}

func switching() map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(http.StatusSwitchingProtocols): {Description: "WebSocket"}}
}

// waitTimeout reads the timeout of a wait.
func (p *params) waitTimeout(def time.Duration) time.Duration {
	d, err := parseWait(p.text("timeout"), def)
	if err != nil {
		p.bad("timeout", "want a duration such as 90s, at most "+maxWait.String())
	}
	return d
}

func typeOf(v any) reflect.Type { return reflect.TypeOf(v) }
