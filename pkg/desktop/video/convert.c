//go:build cgo

#include "convert.h"
#include <stddef.h>

// Plain loops over 32-bit pixels: compilers make vectors of them.

static void luma(uint8_t *restrict y, const uint32_t *restrict p, int n) {
	for (int i = 0; i < n; i++) {
		uint32_t r = p[i] & 255, g = p[i] >> 8 & 255, b = p[i] >> 16 & 255;
		y[i] = (66 * r + 129 * g + 25 * b + 4224) >> 8;
	}
}

// chroma takes the mean of squares of 2x2.
static void chroma(uint8_t *restrict u, uint8_t *restrict v, const uint32_t *restrict a, const uint32_t *restrict b, int n) {
	for (int i = 0; i < n; i++) {
		uint32_t p = a[2 * i], q = a[2 * i + 1], s = b[2 * i], t = b[2 * i + 1];
		int red = (p & 255) + (q & 255) + (s & 255) + (t & 255);
		int green = (p >> 8 & 255) + (q >> 8 & 255) + (s >> 8 & 255) + (t >> 8 & 255);
		int blue = (p >> 16 & 255) + (q >> 16 & 255) + (s >> 16 & 255) + (t >> 16 & 255);
		u[i] = (-38 * red - 74 * green + 112 * blue + 512 + 131072) >> 10;
		v[i] = (112 * red - 94 * green - 18 * blue + 512 + 131072) >> 10;
	}
}

// halve writes the mean of squares of 2x2 of two rows.
static void halve(uint32_t *restrict out, const uint32_t *restrict a, const uint32_t *restrict b, int n) {
	for (int i = 0; i < n; i++) {
		uint32_t p = a[2 * i], q = a[2 * i + 1], s = b[2 * i], t = b[2 * i + 1];
		uint32_t rb = (p & 0xff00ff) + (q & 0xff00ff) + (s & 0xff00ff) + (t & 0xff00ff) + 0x20002;
		uint32_t g = (p & 0xff00) + (q & 0xff00) + (s & 0xff00) + (t & 0xff00) + 0x200;
		out[i] = (rb >> 2 & 0xff00ff) | (g >> 2 & 0xff00);
	}
}

// rows finds pixels x0 to x1 of the rows y of the picture.
static const uint32_t *rows(const uint8_t *pix, int stride, int shrink, uint8_t *row, int x0, int x1, int y) {
	const uint8_t *at = pix + (size_t)y * shrink * stride + (size_t)x0 * shrink * 4;
	if (shrink == 1) return (const uint32_t *)at;
	halve((uint32_t *)row, (const uint32_t *)at, (const uint32_t *)(at + stride), x1 - x0);
	return (const uint32_t *)row;
}

void dfk_convert(dfk_planes *out, const uint8_t *pix, int stride, int shrink, uint8_t *row, const int32_t *r) {
	int x0 = r[0] / shrink & ~1, y0 = r[1] / shrink & ~1;
	int x1 = (r[2] + shrink - 1) / shrink + 1 & ~1, y1 = (r[3] + shrink - 1) / shrink;
	if (x1 > out->width) x1 = out->width;
	if (y1 > out->height) y1 = out->height;
	int n = x1 - x0;
	if (n <= 0) return;
	for (int y = y0; y < y1; y += 2) {
		int last = y + 1 < out->height ? y + 1 : y;
		const uint32_t *a = rows(pix, stride, shrink, row, x0, x1, y);
		const uint32_t *b = rows(pix, stride, shrink, row + (size_t)out->width * 4, x0, x1, last);
		luma(out->plane[0] + (size_t)y * out->stride[0] + x0, a, n);
		if (last > y) luma(out->plane[0] + (size_t)last * out->stride[0] + x0, b, n);
		uint8_t *u = out->plane[1] + (size_t)(y / 2) * out->stride[1] + x0 / 2;
		uint8_t *v = out->plane[2] + (size_t)(y / 2) * out->stride[2] + x0 / 2;
		chroma(u, v, a, b, n / 2);
		if (n & 1) {
			uint32_t above[2] = {a[n - 1], a[n - 1]}, below[2] = {b[n - 1], b[n - 1]};
			chroma(u + n / 2, v + n / 2, above, below, 1);
		}
	}
}
