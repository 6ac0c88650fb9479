"""What goes on in a desktop while it is forked, sealed, suspended and restored.

count       prints a number every 50 ms
tcp FILE    two processes talk over the loopback; the number of the last answer goes to FILE
records FILE    appends records in several writes each, so that one is half written most of the time
generations     prints each generation that the machine is told of
check DIR       reads what the others have made, and demands that it goes on
"""
import ctypes, hashlib, json, os, socket, struct, sys, time, zlib

BODY = 4096
HEAD = struct.Struct(">QI")


def count():
    n = 0
    while True:
        n += 1
        print(n, flush=True)
        time.sleep(0.05)


def receive(conn, size):
    data = b""
    while len(data) < size:
        part = conn.recv(size - len(data))
        if not part:
            sys.exit("the connection ended")
        data += part
    return data


def tcp(path):
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        conn, _ = listener.accept()
        want = 0
        while True:
            (got,) = struct.unpack(">Q", receive(conn, 8))
            if got != want:
                sys.exit("the server got %d, want %d" % (got, want))
            conn.sendall(struct.pack(">Q", got))
            want += 1
    conn = socket.create_connection(listener.getsockname())
    listener.close()
    out = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    n = 0
    while True:
        conn.sendall(struct.pack(">Q", n))
        (got,) = struct.unpack(">Q", receive(conn, 8))
        if got != n:
            sys.exit("the client got %d, want %d" % (got, n))
        os.pwrite(out, b"%020d" % n, 0)
        n += 1
        time.sleep(0.03)


def record(n):
    body = hashlib.sha256(b"%d" % n).digest() * (BODY // 32)
    return HEAD.pack(n, zlib.crc32(body)) + body


def records(path):
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    n = 0
    while True:
        data = record(n)
        for at in range(0, len(data), 1024):
            os.write(out, data[at:at + 1024])
            time.sleep(0.02)
        n += 1
        if n % 20 == 0:
            os.fsync(out)


def generations():
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(0)
    if libc.inotify_add_watch(fd, b"/run/deskfork", 0x80) < 0:  # IN_MOVED_TO
        sys.exit(os.strerror(ctypes.get_errno()))
    print("watching", flush=True)
    while True:
        os.read(fd, 4096)
        print(open("/run/deskfork/generation").read().strip(), flush=True)


def whole(path):
    """The number of whole records, each of them right."""
    n = 0
    with open(path, "rb") as f:
        while True:
            data = f.read(HEAD.size + BODY)
            if len(data) < HEAD.size + BODY:
                if data != record(n)[:len(data)]:
                    sys.exit("the half record %d is not its beginning" % n)
                return n
            if data != record(n):
                sys.exit("record %d is wrong" % n)
            n += 1


def check(dir):
    answered = lambda: int(open(dir + "/tcp").read())
    began = {"answered": answered(), "records": whole(dir + "/records")}
    sums = {}
    for path in (dir + "/big", "/workspace/big"):
        with open(path, "rb") as f:
            sums[path] = hashlib.file_digest(f, "sha256").hexdigest()
    end = time.monotonic() + 60
    while True:
        now = {"answered": answered(), "records": whole(dir + "/records")}
        if all(now[k] > began[k] for k in now):
            break
        if time.monotonic() > end:
            sys.exit("it does not go on: %s, then %s" % (began, now))
        time.sleep(0.1)
    print(json.dumps({"began": began, "sums": sums}))


globals()[sys.argv[1]](*sys.argv[2:])
