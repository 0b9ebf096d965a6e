/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "gimbal_figures.h"
void fig_9(void) {}
void fig_18(void) {}
void fig_departures(void) {}
void fig_tenants(void) {}
void fig_convergence(void) {}
void fig_weights(void) {}
void fig_fits(void) {}
