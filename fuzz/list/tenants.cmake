# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_fuzz(tenants_job base SOURCES ${PROJECT_SOURCE_DIR}/examples/tenants/job.c
  ${PROJECT_SOURCE_DIR}/examples/tenants/job_fio.c
  ${PROJECT_SOURCE_DIR}/examples/tenants/job_text.c)
if(TARGET fuzz_tenants_job)
  target_include_directories(fuzz_tenants_job PRIVATE ${PROJECT_SOURCE_DIR}/examples/tenants)
endif()
