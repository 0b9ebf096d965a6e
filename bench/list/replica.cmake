# SPDX-License-Identifier: Apache-2.0 OR MIT
# The nodes' random runs of tests/sim.
set(_sim ${PROJECT_SOURCE_DIR}/tests/sim)
snic_bench(swarm replica SOURCES ${_sim}/swarm.c ${_sim}/swarm_hard.c ${_sim}/swarm_real.c
  ${_sim}/solar_cipher.c ${_sim}/cluster.c
  ${_sim}/cluster_judge.c ${_sim}/lin.c ${_sim}/lin_search.c)
if(TARGET bench_swarm)
  target_include_directories(bench_swarm PRIVATE ${_sim})
endif()

# The loads and peers of bench/replica.sh, each where its packages are installed.
set(_peers ${CMAKE_CURRENT_SOURCE_DIR}/replica_peers)
function(snic_replica_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${name} PRIVATE snicstore snicstore_flags m)
endfunction()
snic_replica_program(resp_load ${_peers}/resp_load.c ${_peers}/load.c)
snic_replica_program(calibrate ${_peers}/calibrate.c)

if(PKG_CONFIG_FOUND)
  pkg_check_modules(SNIC_BENCH_RAFT QUIET IMPORTED_TARGET raft libuv)
  pkg_check_modules(SNIC_BENCH_GRPC QUIET IMPORTED_TARGET grpc++ protobuf)
endif()
if(TARGET PkgConfig::SNIC_BENCH_RAFT)
  snic_replica_program(raft_server ${_peers}/raft_server.c)
  target_link_libraries(raft_server PRIVATE PkgConfig::SNIC_BENCH_RAFT)
else()
  message(STATUS "raft_server: libraft or libuv not found, bench/replica.sh runs without it")
endif()

find_program(SNIC_PROTOC protoc)
find_program(SNIC_GRPC_PLUGIN grpc_cpp_plugin)
set(SNIC_ETCD_SOURCES /usr/share/gocode/src/go.etcd.io/etcd CACHE PATH "where etcd's protos are")
include(CheckLanguage)
check_language(CXX)
if(TARGET PkgConfig::SNIC_BENCH_GRPC AND SNIC_PROTOC AND SNIC_GRPC_PLUGIN AND CMAKE_CXX_COMPILER
    AND EXISTS ${SNIC_ETCD_SOURCES}/etcdserver/etcdserverpb/rpc.proto)
  enable_language(CXX)
  set(_out ${CMAKE_CURRENT_BINARY_DIR}/etcd)
  set(_made ${_out}/rpc.grpc.pb.cc)
  foreach(f rpc kv auth)
    list(APPEND _made ${_out}/${f}.pb.cc)
  endforeach()
  add_custom_command(OUTPUT ${_made}
    COMMAND sh ${_peers}/protos.sh ${SNIC_ETCD_SOURCES} ${_out}
    COMMAND ${SNIC_PROTOC} -I${_out} --cpp_out=${_out} --grpc_out=${_out}
      --plugin=protoc-gen-grpc=${SNIC_GRPC_PLUGIN} rpc.proto kv.proto auth.proto
    DEPENDS ${_peers}/protos.sh)
  add_executable(etcd_load ${_peers}/etcd_load.cc ${_peers}/load.c ${_made})
  set_target_properties(etcd_load PROPERTIES C_STANDARD 11 C_EXTENSIONS ON CXX_STANDARD 17
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_include_directories(etcd_load PRIVATE ${_out})
  target_link_libraries(etcd_load PRIVATE snicstore PkgConfig::SNIC_BENCH_GRPC m)
else()
  message(STATUS "etcd_load: gRPC or etcd's protos not found, bench/replica.sh runs without etcd")
endif()
