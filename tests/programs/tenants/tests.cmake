# SPDX-License-Identifier: Apache-2.0 OR MIT
# examples/tenants: its job files, and the program from outside.
set(_tenants ${PROJECT_SOURCE_DIR}/examples/tenants)
snic_test(tenants_job base SOURCES ${_tenants}/job.c ${_tenants}/job_fio.c
          ${_tenants}/job_text.c LABELS tenants)
if(TARGET test_tenants_job)
  target_include_directories(test_tenants_job PRIVATE ${_tenants})
endif()
if(Python3_FOUND AND TARGET tenants AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME tenants COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_tenants.py
    $<TARGET_FILE:tenants> ${_tenants})
  set_tests_properties(tenants PROPERTIES LABELS "tenants;slow" SKIP_RETURN_CODE 77 TIMEOUT 900)
  if(_sanitized)
    set_property(TEST tenants PROPERTY ENVIRONMENT "SNIC_SANITIZED=${SNIC_SANITIZE}")
  endif()
endif()
# What programs keep of the devices that their switches have learned.
snic_test(device_profile gimbal SOURCES ${PROJECT_SOURCE_DIR}/examples/device_profile.c
          LABELS tenants)
if(TARGET test_device_profile)
  target_include_directories(test_device_profile PRIVATE ${PROJECT_SOURCE_DIR}/examples)
endif()
