#ifndef DESKFORK_CONVERT_H
#define DESKFORK_CONVERT_H
#include <stdint.h>

typedef struct {
	uint8_t *plane[3];
	int stride[3];
	int width, height;
} dfk_planes;

// dfk_convert writes the part r of an RGBA screen as Y'CbCr 4:2:0 of BT.601, video
// range. row has room for two rows of the picture.
void dfk_convert(dfk_planes *out, const uint8_t *pix, int stride, int shrink, uint8_t *row, const int32_t *r);
#endif
