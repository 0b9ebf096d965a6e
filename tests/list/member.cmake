# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(member member)
snic_test(member_sim member)
snic_test(member_teeth member)
snic_test(member_cluster member)
