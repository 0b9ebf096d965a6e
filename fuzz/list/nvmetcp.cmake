# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_fuzz(nvmetcp nvmetcp)
snic_fuzz(nvmetcp_pdu nvmetcp)
