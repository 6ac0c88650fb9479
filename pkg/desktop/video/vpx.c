//go:build cgo

#include "vpx.h"
#include "convert.h"
#include <stdlib.h>
#include <string.h>
#include <vpx/vp8cx.h>
#include <vpx/vpx_encoder.h>

// Quantizers, of 0 to 63: what motion may cost, and what a still picture gets.
enum { MIN_Q = 4, MAX_Q = 56, FINE_Q = 12 };

// CREDIT_MS bounds how much unspent time the rate control sees: a change after a
// long rest may be large, not huge.
enum { CREDIT_MS = 200, FRAME_MS = 33 };

struct dfk_encoder {
	vpx_codec_ctx_t ctx;
	vpx_codec_enc_cfg_t cfg;
	vpx_image_t img;
	vpx_active_map_t map; // of blocks of 16 pixels a side
	uint8_t *row;         // two rows of shrunk pixels
	int width, height;    // of the screen
	int shrink;
	int64_t pts;
};

static int tune(vpx_codec_ctx_t *x, int vp9, int threads) {
	int r = 0;
	if (!vp9) {
		// Faster than 4 finds no scrolling, and takes longer for it; the mode for
		// screens keeps blocks from being refined.
		r |= vpx_codec_control(x, VP8E_SET_CPUUSED, -4);
		r |= vpx_codec_control(x, VP8E_SET_STATIC_THRESHOLD, 1u);
		r |= vpx_codec_control(x, VP8E_SET_NOISE_SENSITIVITY, 0u);
		r |= vpx_codec_control(x, VP8E_SET_TOKEN_PARTITIONS, threads > 1 ? 1 : 0);
		return r;
	}
	r |= vpx_codec_control(x, VP8E_SET_CPUUSED, 8);
	r |= vpx_codec_control(x, VP9E_SET_TUNE_CONTENT, VP9E_CONTENT_SCREEN);
	r |= vpx_codec_control(x, VP9E_SET_AQ_MODE, 0u); // refreshes what the caller refines
	r |= vpx_codec_control(x, VP9E_SET_NOISE_SENSITIVITY, 0u);
	r |= vpx_codec_control(x, VP9E_SET_FRAME_PARALLEL_DECODING, 0u);
	r |= vpx_codec_control(x, VP9E_SET_COLOR_SPACE, VPX_CS_BT_601);
	r |= vpx_codec_control(x, VP9E_SET_ROW_MT, threads > 1 ? 1u : 0u);
	r |= vpx_codec_control(x, VP9E_SET_TILE_COLUMNS, threads > 1 ? 1 : 0);
	return r;
}

static void configure(vpx_codec_enc_cfg_t *g, const dfk_config *c) {
	g->g_w = c->width / c->shrink;
	g->g_h = c->height / c->shrink;
	g->g_timebase.num = 1;
	g->g_timebase.den = 1000;
	g->g_threads = c->threads;
	g->g_lag_in_frames = 0;
	g->g_pass = VPX_RC_ONE_PASS;
	g->g_error_resilient = 0;
	g->rc_end_usage = VPX_CBR;
	g->rc_target_bitrate = c->kbps;
	g->rc_min_quantizer = MIN_Q;
	g->rc_max_quantizer = MAX_Q;
	g->rc_undershoot_pct = 50;
	g->rc_overshoot_pct = 50;
	g->rc_buf_initial_sz = 500;
	g->rc_buf_optimal_sz = 600;
	g->rc_buf_sz = 1000;
	g->rc_dropframe_thresh = 0; // what is dropped here would never be seen: damage comes once
	g->rc_resize_allowed = 0;
	g->kf_mode = VPX_KF_DISABLED;
}

int dfk_open(const dfk_config *c, dfk_encoder **out) {
	dfk_encoder *e = calloc(1, sizeof *e);
	if (!e) return VPX_CODEC_MEM_ERROR;
	vpx_codec_iface_t *iface = c->vp9 ? vpx_codec_vp9_cx() : vpx_codec_vp8_cx();
	e->width = c->width;
	e->height = c->height;
	e->shrink = c->shrink;
	int r = vpx_codec_enc_config_default(iface, &e->cfg, 0);
	if (!r) {
		configure(&e->cfg, c);
		r = vpx_codec_enc_init(&e->ctx, iface, &e->cfg, 0);
	}
	if (!r) r = tune(&e->ctx, c->vp9, c->threads);
	e->map.rows = (e->cfg.g_h + 15) / 16;
	e->map.cols = (e->cfg.g_w + 15) / 16;
	e->map.active_map = malloc((size_t)e->map.rows * e->map.cols);
	e->row = malloc((size_t)e->cfg.g_w * 4 * 2);
	if (!r && (!e->map.active_map || !e->row || !vpx_img_alloc(&e->img, VPX_IMG_FMT_I420, e->cfg.g_w, e->cfg.g_h, 32)))
		r = VPX_CODEC_MEM_ERROR;
	if (r) {
		dfk_close(e);
		return r;
	}
	*out = e;
	return 0;
}

// activate marks the blocks under a rectangle of the picture, and one pixel
// around it, since chroma is shared.
static void activate(dfk_encoder *e, const int32_t *r) {
	int x0 = r[0] / e->shrink / 16, y0 = r[1] / e->shrink / 16;
	int x1 = (r[2] / e->shrink + 16) / 16, y1 = (r[3] / e->shrink + 16) / 16;
	if (x1 > (int)e->map.cols) x1 = e->map.cols;
	if (y1 > (int)e->map.rows) y1 = e->map.rows;
	for (int y = y0; y < y1; y++)
		if (x1 > x0) memset(e->map.active_map + (size_t)y * e->map.cols + x0, 1, x1 - x0);
}

static int quantizer(dfk_encoder *e, int refine) {
	unsigned want = refine ? FINE_Q : MAX_Q;
	if (e->cfg.rc_max_quantizer == want) return 0;
	e->cfg.rc_max_quantizer = want;
	return vpx_codec_enc_config_set(&e->ctx, &e->cfg);
}

static int activity(dfk_encoder *e, const dfk_picture *p) {
	if (p->key) {
		vpx_active_map_t all = {NULL, e->map.rows, e->map.cols};
		return vpx_codec_control(&e->ctx, VP8E_SET_ACTIVEMAP, &all);
	}
	memset(e->map.active_map, 0, (size_t)e->map.rows * e->map.cols);
	for (int i = 0; i < p->changed_n; i++) activate(e, p->changed + 4 * i);
	for (int i = 0; i < p->refine_n; i++) activate(e, p->refine + 4 * i);
	return vpx_codec_control(&e->ctx, VP8E_SET_ACTIVEMAP, &e->map);
}

int dfk_encode(dfk_encoder *e, const dfk_picture *p, dfk_chunk *out) {
	dfk_planes planes = {
		{e->img.planes[0], e->img.planes[1], e->img.planes[2]},
		{e->img.stride[0], e->img.stride[1], e->img.stride[2]},
		(int)e->cfg.g_w, (int)e->cfg.g_h};
	for (int i = 0; i < p->changed_n; i++)
		dfk_convert(&planes, p->pix, p->stride, e->shrink, e->row, p->changed + 4 * i);
	int r = quantizer(e, p->refine_n > 0);
	if (!r) r = activity(e, p);
	if (r) return r;
	int elapsed = p->elapsed_ms > CREDIT_MS ? CREDIT_MS : p->elapsed_ms < FRAME_MS ? FRAME_MS : p->elapsed_ms;
	r = vpx_codec_encode(&e->ctx, &e->img, e->pts, elapsed, p->key ? VPX_EFLAG_FORCE_KF : 0, VPX_DL_REALTIME);
	if (r) return r;
	e->pts += elapsed;
	vpx_codec_iter_t iter = NULL;
	const vpx_codec_cx_pkt_t *pkt;
	memset(out, 0, sizeof *out);
	while ((pkt = vpx_codec_get_cx_data(&e->ctx, &iter)) != NULL) {
		if (pkt->kind != VPX_CODEC_CX_FRAME_PKT) continue;
		out->data = pkt->data.frame.buf;
		out->size = pkt->data.frame.sz;
		out->key = (pkt->data.frame.flags & VPX_FRAME_IS_KEY) != 0;
		return 0;
	}
	return VPX_CODEC_ERROR;
}

int dfk_bitrate(dfk_encoder *e, int kbps) {
	e->cfg.rc_target_bitrate = kbps;
	return vpx_codec_enc_config_set(&e->ctx, &e->cfg);
}

void dfk_close(dfk_encoder *e) {
	if (e->ctx.iface) vpx_codec_destroy(&e->ctx);
	if (e->img.img_data) vpx_img_free(&e->img);
	free(e->map.active_map);
	free(e->row);
	free(e);
}

const char *dfk_error(dfk_encoder *e, int code) {
	const char *detail = e ? vpx_codec_error_detail(&e->ctx) : NULL;
	return detail ? detail : vpx_codec_err_to_string(code);
}
