"""Harbour Books, a shop for demonstrations: one clerk, one form.

Who is signed in and with which session is known to this process's memory alone.
What happened is written down beside it, to be read back.
"""

import html
import http.cookies
import http.server
import pathlib
import secrets
import sys
import urllib.parse

ADDRESS = ("127.0.0.1", 8077)
CLERK, PASSWORD = "ada", "analytical engine"
HERE = pathlib.Path(__file__).parent
sessions, orders = {}, []
said = ""

PAGE = """<!doctype html><meta charset=utf-8><title>{title}</title><style>
body{{margin:0;font:20px sans-serif;background:#f4f6f8;color:#1c2733}}
h1{{margin:0;padding:18px 32px;background:{colour};color:#fff;font-size:28px}}
p{{margin:18px 32px 0;font-size:24px}}
label{{position:fixed;left:0;right:0;padding:0 32px}}
.first{{top:50%;height:140px;margin-top:-70px}} .second{{top:50%;margin-top:70px}}
.below{{position:fixed;left:32px;top:50%;margin-top:155px}}
input{{display:block;width:480px;margin-top:6px;padding:10px;font-size:22px}}
button{{padding:12px 28px;font-size:20px;margin-right:16px}}
</style><h1>{head}</h1><p>{said}</p><form method=post action="{to}">{fields}</form><script>
requestAnimationFrame(() => requestAnimationFrame(() => fetch("/drawn?" + encodeURIComponent(document.title))))
</script>"""

SIGN_IN = """<label class=first>Name<input name=name autofocus autocomplete=off></label>
<label class=second>Password<input name=password type=password></label>
<div class=below><button>Sign in</button></div>"""

ORDER = """<label class=first>Order a book<input name=book autofocus autocomplete=off></label>
<label class=second>Copies<input name=copies value=1 autocomplete=off></label>
<div class=below><button>Send the order</button><button formaction="/out" accesskey=o>Sign out</button></div>"""


def write(name, lines):
    """Replaces a file at once."""
    new = HERE / (name + ".new")
    new.write_text("".join(line + "\n" for line in lines))
    new.rename(HERE / name)


def record():
    write("sessions.txt", [f"{user} {token}" for token, user in sessions.items()])
    write("orders.txt", orders)


class Handler(http.server.BaseHTTPRequestHandler):
    def token(self):
        return http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get("session")

    def session(self):
        cookie = self.token()
        return cookie.value if cookie and cookie.value in sessions else ""

    def do_GET(self):
        path, _, title = self.path.partition("?")
        if path == "/drawn":  # a page says so when it is on the screen
            write("drawn.txt", [urllib.parse.unquote(title)])
            self.send_response(204)
            return self.end_headers()
        if self.path != "/":
            return self.send_error(404)
        token = self.session()
        if token:
            user = sessions[token]
            page = PAGE.format(
                title=f"Harbour: {said or 'signed in as ' + user}", colour="#17653a",
                head=f"Harbour Books · {user} · session {token}",
                said=html.escape(said or f"Welcome, {user}."), to="/order", fields=ORDER)
        else:
            page = PAGE.format(
                title=f"Harbour: {said or 'sign in'}", colour="#8a2b2b" if said else "#1f4e79",
                head="Harbour Books", said=html.escape(said or "Please sign in."), to="/in", fields=SIGN_IN)
        body = page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        global said
        length = int(self.headers.get("Content-Length", 0))
        form = {k: v[0] for k, v in urllib.parse.parse_qs(self.rfile.read(length).decode()).items()}
        token = self.session()
        self.send_response(303)
        if self.path == "/in" and (form.get("name"), form.get("password")) == (CLERK, PASSWORD):
            token, said = secrets.token_hex(4), ""
            sessions[token] = CLERK
            self.send_header("Set-Cookie", f"session={token}; HttpOnly; SameSite=Strict; Path=/")
        elif self.path == "/in":
            said = "not signed in"
        elif self.path == "/order" and token:
            orders.append(f"{form.get('copies', '')} x {form.get('book', '')}")
            said = f"order {len(orders)} sent: {orders[-1]}"
        elif self.path == "/out" and token:
            said = f"{sessions.pop(token)} has signed out"
        record()
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(ADDRESS, Handler)
    record()
    print("serving", file=sys.stderr)
    server.serve_forever()
