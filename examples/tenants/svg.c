/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The picture: two panels over time, a line per section. Above the bandwidth of all its tenants,
 * below their latency, average (solid) and 99th percentile (dashed), on a logarithmic axis.
 */
#include "tenants.h"

#include <inttypes.h>
#include <math.h>

#define SVG_WIDTH 960
#define SVG_LEFT 80
#define SVG_RIGHT 190 /* the legend */
#define SVG_PLOT (SVG_WIDTH - SVG_LEFT - SVG_RIGHT)
#define SVG_PANEL 220
#define SVG_TOP 50
#define SVG_GAP 60
#define SVG_HEIGHT (SVG_TOP + 2 * SVG_PANEL + SVG_GAP + 60)

/* Distinguishable with colour blindness, too (Okabe and Ito). */
static const char *const svg_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                          "#56b4e9", "#e69f00", "#000000", "#8c564b"};

struct axis {
    double top;   /* of the panel, in pixels */
    double least; /* at its bottom */
    double most;  /* at its top */
    double step;  /* between two ticks, when not logarithmic */
    int logarithmic;
};

static double svg_y(const struct axis *a, double v)
{
    double part = a->logarithmic ? log10(fmax(v, a->least) / a->least) / log10(a->most / a->least)
                                 : (v - a->least) / (a->most - a->least);

    return a->top + SVG_PANEL * (1 - part);
}

/* 1, 2 or 5 times a power of ten, at least @p v. */
static double svg_round(double v)
{
    double unit = pow(10, floor(log10(v)));

    return v <= unit ? unit : v <= 2 * unit ? 2 * unit : v <= 5 * unit ? 5 * unit : 10 * unit;
}

static const char *svg_colour(uint32_t section)
{
    return svg_colours[section % SNIC_COUNTOF(svg_colours)];
}

static double svg_mbps(const struct run *r, uint32_t s, uint32_t b)
{
    return (double)r->bin[s][b].bytes * 1e3 / (double)r->bin_ns;
}

static double svg_us(const struct run *r, uint32_t s, uint32_t b, int p99)
{
    return (double)(p99 ? r->bin[s][b].p99_ns : r->bin[s][b].average_ns) / 1000;
}

/* ---- Axes ---- */

static void svg_tick_y(FILE *f, const struct axis *a, double v)
{
    double y = svg_y(a, v);

    fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", SVG_LEFT, y, SVG_LEFT + SVG_PLOT);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n", SVG_LEFT - 8, y + 4,
            v);
}

static void svg_axis_y(FILE *f, const struct axis *a, const char *title)
{
    if (a->logarithmic) {
        for (double v = a->least; v <= a->most * 1.001; v *= 10)
            svg_tick_y(f, a, v);
    } else {
        for (double v = 0; v <= a->most * 1.001; v += a->step)
            svg_tick_y(f, a, v);
    }
    fprintf(f,
            "<text transform=\"translate(22 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
            a->top + SVG_PANEL / 2.0, title);
    fprintf(f, "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", SVG_LEFT,
            a->top, SVG_PLOT, SVG_PANEL);
}

static double svg_x(const struct run *r, double ns)
{
    return SVG_LEFT + SVG_PLOT * ns / (double)r->opts.seconds_ns;
}

static void svg_axis_x(FILE *f, const struct run *r, const struct axis *a)
{
    double seconds = (double)r->opts.seconds_ns / 1e9;
    double step = svg_round(seconds / 11);

    for (double v = 0; v <= seconds * 1.001; v += step) {
        double x = svg_x(r, v * 1e9);

        fprintf(f, "<path class=\"grid\" d=\"M%.1f %.1fv%d\"/>\n", x, a->top, SVG_PANEL);
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.10g</text>\n", x,
                a->top + SVG_PANEL + 18, v);
    }
}

/* ---- Lines ---- */

/* One line; a bin without I/Os breaks a latency line. */
static void svg_line(FILE *f, const struct run *r, const struct axis *a, uint32_t s, int what)
{
    int on = 0;

    fprintf(f, "<path class=\"%s\" stroke=\"%s\" d=\"", what == 2 ? "line dashed" : "line",
            svg_colour(s));
    for (uint32_t b = 0; b < r->bins; b++) {
        double v = what == 0 ? svg_mbps(r, s, b) : svg_us(r, s, b, what == 2);

        if (what != 0 && r->bin[s][b].ios == 0) {
            on = 0;
            continue;
        }
        fprintf(f, "%s%.1f %.1f", on ? "L" : "M", svg_x(r, ((double)b + 0.5) * (double)r->bin_ns),
                svg_y(a, v));
        on = 1;
    }
    fprintf(f, "\"/>\n");
}

static void svg_legend(FILE *f, const struct run *r)
{
    int y = SVG_TOP + 10;
    int x = SVG_LEFT + SVG_PLOT + 14;

    for (uint32_t s = 0; s < r->jobs->count; s++) {
        const struct job *j = &r->jobs->jobs[s];

        fprintf(f, "<path class=\"line\" stroke=\"%s\" d=\"M%d %dh22\"/>\n", svg_colour(s), x, y);
        fprintf(f, "<text x=\"%d\" y=\"%d\">%s", x + 28, y + 4, j->name);
        if (j->count > 1)
            fprintf(f, " (sum of %" PRIu32 ")", j->count);
        fprintf(f, "</text>\n");
        y += 18;
    }
    y = SVG_TOP + SVG_PANEL + SVG_GAP + 10;
    fprintf(f, "<path class=\"line\" stroke=\"#444\" d=\"M%d %dh22\"/>\n", x, y);
    fprintf(f, "<text x=\"%d\" y=\"%d\">average</text>\n", x + 28, y + 4);
    fprintf(f, "<path class=\"line dashed\" stroke=\"#444\" d=\"M%d %dh22\"/>\n", x, y + 18);
    fprintf(f, "<text x=\"%d\" y=\"%d\">99th percentile</text>\n", x + 28, y + 22);
}

static void svg_text(FILE *f, const char *s)
{
    for (; *s != 0; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 32 || c > 126 || c == '<' || c == '>' || c == '&')
            fprintf(f, "&#%u;", c < 32 ? '?' : c);
        else
            fputc(c, f);
    }
}

void report_svg(const struct report *p, FILE *f)
{
    const struct run *r = p->run;
    struct axis rate = {SVG_TOP, 0, 0, 0, 0};
    struct axis latency = {SVG_TOP + SVG_PANEL + SVG_GAP, HUGE_VAL, 0, 0, 1};

    for (uint32_t s = 0; s < r->jobs->count; s++)
        for (uint32_t b = 0; b < r->bins; b++) {
            rate.most = fmax(rate.most, svg_mbps(r, s, b));
            if (r->bin[s][b].ios == 0)
                continue;
            latency.least = fmin(latency.least, svg_us(r, s, b, 0));
            latency.most = fmax(latency.most, svg_us(r, s, b, 1));
        }
    rate.step = svg_round(fmax(rate.most, 0.001) / 6);
    rate.most = ceil(fmax(rate.most, 0.001) / rate.step) * rate.step;
    latency.least = latency.most > 0 ? pow(10, floor(log10(fmax(latency.least, 0.001)))) : 1;
    latency.most = pow(10, ceil(log10(fmax(latency.most, latency.least * 1.01))));
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<style>.line{fill:none;stroke-width:1.6}.dashed{stroke-dasharray:4 3;stroke-width:1}"
            ".grid{stroke:#ddd;fill:none}.frame{fill:none;stroke:#444}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            SVG_WIDTH, SVG_HEIGHT, SVG_WIDTH, SVG_HEIGHT);
    fprintf(f, "<text x=\"%d\" y=\"28\" font-size=\"15\">", SVG_LEFT);
    svg_text(f, p->device);
    fprintf(f, " under %s</text>\n", r->opts.scheduler->name);
    svg_axis_x(f, r, &rate);
    svg_axis_y(f, &rate, "bandwidth, MB/s");
    svg_axis_x(f, r, &latency);
    svg_axis_y(f, &latency, "latency, us");
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">time, s</text>\n",
            SVG_LEFT + SVG_PLOT / 2, SVG_HEIGHT - 14);
    for (uint32_t s = 0; s < r->jobs->count; s++) {
        svg_line(f, r, &rate, s, 0);
        svg_line(f, r, &latency, s, 1);
        svg_line(f, r, &latency, s, 2);
    }
    svg_legend(f, r);
    fprintf(f, "</svg>\n");
}
