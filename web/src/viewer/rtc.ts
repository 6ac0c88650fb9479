/** Watching by WebRTC, signalled by WHEP. */
import { request } from '../common/api';
import type { Figures, Listener, Way } from './way';
import { read } from './wire';

/** Ways that a page sends input by, and hears of the pointer. */
const channels: Record<string, RTCDataChannelInit> = {
  cursor: { ordered: true },
  moves: { ordered: false, maxRetransmits: 0 },
  input: { ordered: true },
};

/** servers reads those that help to find a way out of Link headers. */
export function servers(link: string | null): RTCIceServer[] {
  const out: RTCIceServer[] = [];
  for (const part of (link ?? '').split(/,\s*(?=<)/)) {
    const m = /^<([^>]+)>(.*)$/.exec(part.trim());
    if (!m?.[1] || !/rel="?ice-server"?/.test(m[2] ?? '')) continue;
    const field = (name: string) => new RegExp(`${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(m[2] ?? '')?.[1]?.replace(/\\(.)/g, '$1');
    const username = field('username');
    const credential = field('credential');
    out.push(username && credential ? { urls: m[1], username, credential } : { urls: m[1] });
  }
  return out;
}

/** fragment is an SDP fragment with addresses, for trickle ICE. */
export function fragment(offer: string, candidates: string[], done: boolean): string {
  const line = (name: string) => new RegExp(`^a=${name}:.*$`, 'm').exec(offer)?.[0]?.trim() ?? '';
  const media = /^m=.*$/m.exec(offer)?.[0]?.trim() ?? 'm=video 9 UDP/TLS/RTP/SAVPF 0';
  const lines = [line('ice-ufrag'), line('ice-pwd'), media, line('mid') || 'a=mid:0', ...candidates.map((c) => `a=${c}`)];
  if (done) lines.push('a=end-of-candidates');
  return `${lines.filter(Boolean).join('\r\n')}\r\n`;
}

/** failure says in words which pairs of addresses were tried. */
export function failure(stats: Iterable<Record<string, unknown>>, answer = ''): string {
  const all = new Map<string, Record<string, unknown>>();
  for (const s of stats) all.set(String(s['id']), s);
  const name = (id: unknown) => {
    const c = all.get(String(id));
    return c ? `${String(c['protocol'] ?? '')} ${String(c['address'] ?? c['ip'] ?? 'hidden')}:${String(c['port'] ?? '')}` : 'unknown';
  };
  const tried = [...all.values()].filter((s) => s['type'] === 'candidate-pair');
  if (tried.length === 0) {
    const theirs = [...answer.matchAll(/^a=candidate:\S+ \d+ (\S+) \d+ (\S+) (\d+)/gm)].map((c) => `${c[1]} ${c[2]}:${c[3]}`);
    return theirs.length === 0 ? 'the server has named no address' : `this browser has no address that goes with ${[...new Set(theirs)].slice(0, 4).join(', ')}`;
  }
  const words = tried.map((p) => `${name(p['localCandidateId'])} to ${name(p['remoteCandidateId'])}: ${String(p['state'] ?? 'unknown')}`);
  return [...new Set(words)].slice(0, 4).join('; ');
}

export class RtcWay implements Way {
  readonly carrier = 'webrtc';

  private readonly pc = new RTCPeerConnection({ bundlePolicy: 'max-bundle' });
  private readonly open = new Map<string, RTCDataChannel>();
  private location = '';
  private etag = '';
  private offer = '';
  private answer = '';
  private late: string[] = [];
  private gathered = false;
  private sending = false;
  private closed = false;

  private constructor(
    private readonly video: HTMLVideoElement,
    private readonly listener: Listener,
  ) {}

  /** connect resolves with the first picture. It fails with words for people. */
  static async connect(desktop: string, video: HTMLVideoElement, listener: Listener, signal: AbortSignal): Promise<RtcWay> {
    const way = new RtcWay(video, listener);
    try {
      await way.begin(desktop, signal);
      return way;
    } catch (e) {
      const why = signal.aborted ? await way.tried() : '';
      way.close();
      throw why ? new Error(why) : e;
    }
  }

  private async tried(): Promise<string> {
    const list: Record<string, unknown>[] = [];
    (await this.pc.getStats()).forEach((s) => list.push(s as Record<string, unknown>));
    return failure(list, this.answer);
  }

  private async begin(desktop: string, signal: AbortSignal): Promise<void> {
    const pc = this.pc;
    for (const [label, init] of Object.entries(channels)) {
      const d = pc.createDataChannel(label, init);
      d.binaryType = 'arraybuffer';
      d.onmessage = (m) => this.heard(m.data as ArrayBuffer);
      this.open.set(label, d);
    }
    const receiver = pc.addTransceiver('video', { direction: 'recvonly' }).receiver as RTCRtpReceiver & { jitterBufferTarget?: number; playoutDelayHint?: number };
    receiver.jitterBufferTarget = 0; // what happens is to be seen now
    receiver.playoutDelayHint = 0;
    pc.ontrack = (t) => this.show(t.streams[0] ?? new MediaStream([t.track]));
    pc.onicecandidate = (e) => {
      if (e.candidate?.candidate) this.late.push(e.candidate.candidate);
      else if (!e.candidate) this.gathered = true;
      void this.trickle();
    };
    const first = this.first(signal);
    first.catch(() => undefined); // it is waited for below
    const offer = await pc.createOffer();
    this.offer = offer.sdp ?? '';
    const path = `/v1/desktops/${encodeURIComponent(desktop)}/whep`;
    const resp = await request('POST', path, { body: new Blob([this.offer], { type: 'application/sdp' }), headers: { 'Content-Type': 'application/sdp' }, signal });
    this.location = resp.headers.get('Location') ?? '';
    this.etag = resp.headers.get('ETag') ?? '';
    const iceServers = servers(resp.headers.get('Link'));
    const answer = (this.answer = await resp.text());
    if (this.closed || signal.aborted) throw new Error('ended');
    if (iceServers.length > 0) pc.setConfiguration({ ...pc.getConfiguration(), iceServers });
    await pc.setLocalDescription(offer);
    await pc.setRemoteDescription({ type: 'answer', sdp: answer });
    await first;
    pc.onconnectionstatechange = () => {
      if (pc.connectionState === 'failed' || pc.connectionState === 'closed') this.end('the connection was lost');
      else if (pc.connectionState === 'disconnected') this.suspect();
    };
    const input = this.open.get('input');
    if (input) input.onclose = () => this.end('the server has ended the connection');
  }

  /** suspect gives a connection that is silent a moment to come back. */
  private suspect(): void {
    setTimeout(() => {
      if (this.pc.connectionState === 'disconnected') this.end('nothing has come for a while');
    }, 1500);
  }

  private first(signal: AbortSignal): Promise<void> {
    return new Promise((done, fail) => {
      signal.addEventListener('abort', () => fail(new Error('no picture came in time')), { once: true });
      this.pc.addEventListener('connectionstatechange', () => {
        if (this.pc.connectionState === 'failed') void this.tried().then((why) => fail(new Error(why)));
      });
      const see = () => {
        if (this.closed) return;
        this.listener.size(this.video.videoWidth, this.video.videoHeight, false);
        this.listener.shown();
        done();
        this.video.requestVideoFrameCallback(see);
      };
      this.video.requestVideoFrameCallback(see);
    });
  }

  private show(stream: MediaStream): void {
    this.video.srcObject = stream;
    void this.video.play().catch(() => undefined); // it is muted, and plays by itself
  }

  private async trickle(): Promise<void> {
    if (this.sending || this.closed || !this.location || !this.pc.remoteDescription) {
      if (!this.sending && !this.closed && (this.late.length > 0 || this.gathered)) setTimeout(() => void this.trickle(), 50);
      return;
    }
    const list = this.late.splice(0);
    if (list.length === 0) return;
    this.sending = true;
    try {
      const type = 'application/trickle-ice-sdpfrag';
      const headers: Record<string, string> = { 'Content-Type': type, ...(this.etag ? { 'If-Match': this.etag } : {}) };
      await request('PATCH', this.location, { body: new Blob([fragment(this.offer, list, this.gathered)], { type }), headers });
    } catch {
      // The server finds addresses by what comes from them, too.
    }
    this.sending = false;
    if (this.late.length > 0) void this.trickle();
  }

  private heard(raw: ArrayBuffer): void {
    const m = read(raw);
    if (m && m.kind !== 'picture') this.listener.said(m);
  }

  send(message: ArrayBuffer, lossy: boolean): void {
    const moves = this.open.get('moves');
    const d = lossy && moves?.readyState === 'open' ? moves : this.open.get('input');
    if (d?.readyState !== 'open' || (lossy && d.bufferedAmount > 1000)) return;
    d.send(message);
  }

  async figures(): Promise<Figures> {
    const out: Figures = { via: 'WebRTC', codec: '', width: this.video.videoWidth, height: this.video.videoHeight, frames: 0, bytes: 0, roundTrip: null, encode: null, dropped: 0 };
    const stats = await this.pc.getStats();
    stats.forEach((s: Record<string, unknown>) => {
      if (s['type'] === 'inbound-rtp' && s['kind'] === 'video') {
        out.frames = Number(s['framesDecoded'] ?? 0);
        out.bytes = Number(s['bytesReceived'] ?? 0);
        out.dropped = Number(s['framesDropped'] ?? 0) + Number(s['packetsLost'] ?? 0);
        const codec = stats.get(String(s['codecId'])) as Record<string, unknown> | undefined;
        out.codec = String(codec?.['mimeType'] ?? '').replace('video/', '');
      }
      if (s['type'] === 'transport') {
        const pair = stats.get(String(s['selectedCandidatePairId'])) as Record<string, unknown> | undefined;
        if (!pair) return;
        if (typeof pair['currentRoundTripTime'] === 'number') out.roundTrip = pair['currentRoundTripTime'] * 1000;
        const local = stats.get(String(pair['localCandidateId'])) as Record<string, unknown> | undefined;
        const relayed = local?.['candidateType'] === 'relay';
        out.via = `WebRTC, ${relayed ? 'relayed' : String(local?.['protocol'] ?? '').toUpperCase()}`;
      }
    });
    return out;
  }

  private end(why: string): void {
    if (this.closed) return;
    this.close();
    this.listener.lost(why);
  }

  close(soon = false): void {
    if (this.closed) return;
    this.closed = true;
    this.pc.onconnectionstatechange = null;
    this.pc.close();
    this.video.srcObject = null;
    if (this.location) void request('DELETE', this.location, { keepalive: soon }).catch(() => undefined); // it ends by itself, only later
  }
}
