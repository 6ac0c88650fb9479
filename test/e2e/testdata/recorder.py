"""Opens a window at X,Y and writes every input event to a file, one a line.

Usage: recorder.py FILE X Y WIDTH HEIGHT
Lines: press B X Y STATE TIME, release B X Y STATE TIME, motion X Y STATE,
keydown KEYSYM STATE, keyup KEYSYM STATE. X and Y are of the root window.
The first line, "ready", says that the window is mapped and has the focus.
"""
import ctypes, sys

x11 = ctypes.CDLL("libX11.so.6")
for name in ("XOpenDisplay", "XKeysymToString"):
    getattr(x11, name).restype = ctypes.c_char_p if name == "XKeysymToString" else ctypes.c_void_p
for name in ("XDefaultRootWindow", "XCreateSimpleWindow"):
    getattr(x11, name).restype = ctypes.c_ulong

path, x, y, w, h = sys.argv[1], *map(int, sys.argv[2:6])
out = open(path, "w", buffering=1)
dpy = ctypes.c_void_p(x11.XOpenDisplay(None))
root = x11.XDefaultRootWindow(dpy)


class Attributes(ctypes.Structure):
    _fields_ = [("background_pixmap", ctypes.c_ulong), ("background_pixel", ctypes.c_ulong),
                ("border_pixmap", ctypes.c_ulong), ("border_pixel", ctypes.c_ulong),
                ("bit_gravity", ctypes.c_int), ("win_gravity", ctypes.c_int), ("backing_store", ctypes.c_int),
                ("backing_planes", ctypes.c_ulong), ("backing_pixel", ctypes.c_ulong), ("save_under", ctypes.c_int),
                ("event_mask", ctypes.c_long), ("do_not_propagate_mask", ctypes.c_long),
                ("override_redirect", ctypes.c_int), ("colormap", ctypes.c_ulong), ("cursor", ctypes.c_ulong)]


win = x11.XCreateSimpleWindow(dpy, ctypes.c_ulong(root), x, y, w, h, 0, ctypes.c_ulong(0), ctypes.c_ulong(0x335577))
attrs = Attributes(override_redirect=1)
x11.XChangeWindowAttributes(dpy, ctypes.c_ulong(win), ctypes.c_ulong(1 << 9), ctypes.byref(attrs))
# KeyPress KeyRelease ButtonPress ButtonRelease PointerMotion Exposure
x11.XSelectInput(dpy, ctypes.c_ulong(win), ctypes.c_long(0b1111 | 1 << 6 | 1 << 15))
x11.XMapRaised(dpy, ctypes.c_ulong(win))
event = (ctypes.c_char * 192)()


def at(kind, offset):
    return kind.from_buffer(event, offset).value


while True:
    x11.XNextEvent(dpy, event)
    what = at(ctypes.c_int, 0)
    if what == 12:  # Expose
        x11.XSetInputFocus(dpy, ctypes.c_ulong(win), 1, ctypes.c_ulong(0))
        x11.XSync(dpy, 0)
        out.write("ready\n")
        continue
    px, py = at(ctypes.c_int, 72), at(ctypes.c_int, 76)
    state, detail, time = at(ctypes.c_uint, 80), at(ctypes.c_uint, 84), at(ctypes.c_ulong, 56)
    if what in (4, 5):
        out.write(f"{'press' if what == 4 else 'release'} {detail} {px} {py} {state} {time}\n")
    elif what == 6:
        out.write(f"motion {px} {py} {state}\n")
    elif what in (2, 3):
        sym = ctypes.c_ulong()
        x11.XLookupString(event, None, 0, ctypes.byref(sym), None)
        name = x11.XKeysymToString(sym) or b"none"
        out.write(f"{'keydown' if what == 2 else 'keyup'} {name.decode()} {state}\n")
