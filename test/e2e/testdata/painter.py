"""Fills a window with a colour and returns when the X server has drawn it.

Usage: painter.py WINDOW_FILE RRGGBB
The first call makes the window (100,100, 300x200) in a child that stays, and
writes its id to WINDOW_FILE; later calls paint that window.
"""
import ctypes, os, sys

x11 = ctypes.CDLL("libX11.so.6")
x11.XOpenDisplay.restype = ctypes.c_void_p
x11.XDefaultRootWindow.restype = ctypes.c_ulong
x11.XCreateSimpleWindow.restype = ctypes.c_ulong
path, colour = sys.argv[1], int(sys.argv[2], 16)


def paint(dpy, win):
    x11.XSetWindowBackground(dpy, ctypes.c_ulong(win), ctypes.c_ulong(colour))
    x11.XClearWindow(dpy, ctypes.c_ulong(win))
    x11.XSync(dpy, 0)


if os.path.exists(path):
    with open(path) as f:
        paint(ctypes.c_void_p(x11.XOpenDisplay(None)), int(f.read()))
    sys.exit(0)

r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    dpy = ctypes.c_void_p(x11.XOpenDisplay(None))
    root = x11.XDefaultRootWindow(dpy)
    win = x11.XCreateSimpleWindow(dpy, ctypes.c_ulong(root), 100, 100, 300, 200, 0, ctypes.c_ulong(0), ctypes.c_ulong(colour))
    attrs = (ctypes.c_char * 112)()
    ctypes.c_int.from_buffer(attrs, 88).value = 1  # override_redirect
    x11.XChangeWindowAttributes(dpy, ctypes.c_ulong(win), ctypes.c_ulong(1 << 9), attrs)
    x11.XSelectInput(dpy, ctypes.c_ulong(win), ctypes.c_long(1 << 15))
    x11.XMapRaised(dpy, ctypes.c_ulong(win))
    event = (ctypes.c_char * 192)()
    x11.XNextEvent(dpy, event)  # Expose: it is on the screen
    paint(dpy, win)
    with open(path + ".tmp", "w") as f:
        f.write(str(win))
    os.rename(path + ".tmp", path)
    os.write(w, b"x")
    while True:
        x11.XNextEvent(dpy, event)
        x11.XClearWindow(dpy, ctypes.c_ulong(win))
os.close(w)
os.read(r, 1)
