#ifndef DESKFORK_VPX_H
#define DESKFORK_VPX_H
#include <stdint.h>
#include <stddef.h>

typedef struct dfk_encoder dfk_encoder;

typedef struct {
	int width, height; // of the screen
	int shrink;
	int vp9;
	int kbps;
	int threads;
} dfk_config;

// Rectangles are four numbers each: x0, y0, x1, y1, in pixels of the screen, and
// lie on it.
typedef struct {
	const uint8_t *pix; // RGBA
	int stride;
	const int32_t *changed;
	int changed_n;
	const int32_t *refine;
	int refine_n;
	int key;
	int elapsed_ms;
} dfk_picture;

typedef struct {
	const void *data; // valid until the next call
	size_t size;
	int key;
} dfk_chunk;

// Functions that answer int answer 0, or a vpx_codec_err_t.
int dfk_open(const dfk_config *c, dfk_encoder **out);
int dfk_encode(dfk_encoder *e, const dfk_picture *p, dfk_chunk *out);
int dfk_bitrate(dfk_encoder *e, int kbps);
void dfk_close(dfk_encoder *e);
const char *dfk_error(dfk_encoder *e, int code);
#endif
