"""Shows a window at (64,64), 640x320, that a viewer's page can be measured by.

Usage: glass.py FILE FPS [video]
In the window: a number as 24 fields of 16x16 pixels, 12 bits and the same inverted,
which grows by one FPS times a second; below, a patch that changes between black and
white with each press of a button. FILE gets "ready", and how many numbers were drawn
once a second. With "video" the rest of the window plays eight pictures in a ring.
"""
import ctypes, math, os, select, sys, time

x11 = ctypes.CDLL("libX11.so.6")
for name in ("XOpenDisplay", "XCreateGC", "XCreateImage"):
    getattr(x11, name).restype = ctypes.c_void_p
for name in ("XDefaultRootWindow", "XCreateSimpleWindow", "XCreatePixmap"):
    getattr(x11, name).restype = ctypes.c_ulong

path, fps, video = sys.argv[1], float(sys.argv[2]), len(sys.argv) > 3
W, H, BLACK, WHITE = 640, 320, 0x000000, 0xFFFFFF
VW, VH = 320, 180
out = open(path, "w", buffering=1)
dpy = ctypes.c_void_p(x11.XOpenDisplay(None))
win = ctypes.c_ulong(x11.XCreateSimpleWindow(dpy, ctypes.c_ulong(x11.XDefaultRootWindow(dpy)), 64, 64, W, H, 0, ctypes.c_ulong(0), ctypes.c_ulong(0x406080)))
attrs = (ctypes.c_char * 112)()
ctypes.c_int.from_buffer(attrs, 88).value = 1  # override_redirect
x11.XChangeWindowAttributes(dpy, win, ctypes.c_ulong(1 << 9), attrs)
x11.XSelectInput(dpy, win, ctypes.c_long(1 << 2 | 1 << 15))  # presses, exposure
x11.XMapRaised(dpy, win)
gc = ctypes.c_void_p(x11.XCreateGC(dpy, win, 0, None))
bars = ctypes.c_ulong(x11.XCreatePixmap(dpy, win, 24 * 16, 16, 24))


class Rect(ctypes.Structure):
    _fields_ = [("x", ctypes.c_short), ("y", ctypes.c_short), ("w", ctypes.c_ushort), ("h", ctypes.c_ushort)]


def fill(target, colour, rects):
    x11.XSetForeground(dpy, gc, ctypes.c_ulong(colour))
    x11.XFillRectangles(dpy, target, gc, (Rect * len(rects))(*rects), len(rects))


def number(n):
    bits = (n & 0xFFF) << 12 | (~n & 0xFFF)
    fill(bars, BLACK, [Rect(0, 0, 24 * 16, 16)])
    fill(bars, WHITE, [Rect(16 * i, 0, 16, 16) for i in range(24) if bits >> (23 - i) & 1])
    x11.XCopyArea(dpy, bars, win, gc, 0, 0, 24 * 16, 16, 0, 0)


def pictures():
    """Smooth colours that flow: what a film is to an encoder, more or less."""
    wave = [int(127 + 127 * math.sin(i * math.pi / 128)) for i in range(256)]
    ring = []
    for k in range(8):
        rows = []
        for y in range(VH):
            a, b = wave[(y * 3 + k * 32) & 255], wave[(y * 2 - k * 32) & 255]
            rows.append(b"".join(bytes((wave[(x + a) & 255], wave[(x * 2 + b) & 255], wave[(x + y + k * 32) & 255], 0)) for x in range(VW)))
        data = b"".join(rows)
        image = ctypes.c_void_p(x11.XCreateImage(dpy, ctypes.c_void_p(x11.XDefaultVisual(dpy, 0)), 24, 2, 0, data, VW, VH, 32, 0))
        pix = ctypes.c_ulong(x11.XCreatePixmap(dpy, win, VW, VH, 24))
        x11.XPutImage(dpy, pix, gc, image, 0, 0, 0, 0, VW, VH)
        x11.XSync(dpy, 0)
        ring.append((pix, data))
    return ring


x11.XDefaultVisual.restype = ctypes.c_void_p
ring = pictures() if video else []
event = (ctypes.c_char * 192)()
patch, n, ready = BLACK, 0, False
due = told = time.monotonic()
while True:
    while x11.XPending(dpy):
        x11.XNextEvent(dpy, event)
        kind = ctypes.c_int.from_buffer(event, 0).value
        if kind == 4:
            patch ^= WHITE
        fill(win, patch, [Rect(0, 32, 128, 128)])
        if kind == 12:
            number(n)
            if not ready:
                ready = True
                x11.XSync(dpy, 0)
                out.write("ready\n")
    now = time.monotonic()
    if fps > 0 and now >= due:
        n += 1
        number(n)
        if ring:
            x11.XCopyArea(dpy, ring[n % 8][0], win, gc, 0, 0, VW, VH, 160, 32)
        x11.XSync(dpy, 0)
        due = max(due + 1 / fps, now)
        if now - told >= 1:
            told = now
            out.write(f"{n}\n")
    x11.XFlush(dpy)
    wait = max(0, due - time.monotonic()) if fps > 0 else None
    select.select([x11.XConnectionNumber(dpy)], [], [], wait)
