/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The SSD model beside the paper's figures of the two devices: what it was fitted to, and what it
 * misses. No scheduler takes part. test_ssd_facts holds the model to it.
 */
#ifndef SNIC_BENCH_GIMBAL_CALIBRATION_H
#define SNIC_BENCH_GIMBAL_CALIBRATION_H

#include <stddef.h>

#define GIMBAL_FACTS_MAX 64
/* An error up to this is a hit, as everywhere in these rows. */
#define GIMBAL_FACT_HIT 10.0

struct gimbal_fact {
    const char *device;
    const char *name;
    const char *unit;
    double low; /* the paper's value: between low and high, which are mostly equal */
    double high;
    double model;
    double error; /* %, of the nearer end; 0 between them */
    int missed;   /* known to be missed: at odds with the others for this structure */
};

/* Simulate all of them; their number. Takes about two seconds. */
size_t gimbal_calibration_facts(struct gimbal_fact *out, size_t max);
/* The same on a device that ages, at the two ends: filled in order, and then overwritten three
 * times at random. The writes of "clean" end before its first collection. */
size_t gimbal_calibration_ageing_facts(struct gimbal_fact *out, size_t max);
/* Print the former as rows. */
void gimbal_calibration_rows(void);

#endif
