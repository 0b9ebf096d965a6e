/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The load of bench/replica.sh for etcd, over gRPC: `clients` times `pipeline` calls outstanding,
 * on as many connections as there are clients, 16 at most (etcd's own benchmark shares connections,
 * too). One completion queue and one thread.
 */
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "load.h"
#include "rpc.grpc.pb.h"

namespace
{

struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<etcdserverpb::PutResponse>> put;
    std::unique_ptr<grpc::ClientAsyncResponseReader<etcdserverpb::RangeResponse>> range;
    etcdserverpb::PutResponse put_response;
    etcdserverpb::RangeResponse range_response;
    grpc::Status status;
    etcdserverpb::KV::Stub *stub;
    uint64_t key;
    uint64_t sent_ns;
    bool get;
};

struct Load {
    load_opts opts;
    load_stats stats;
    load_draw draw;
    grpc::CompletionQueue queue;
    uint64_t filled = 0;
    uint64_t until_ns = 0;
    std::string value;
};

bool more(const Load &l)
{
    return l.opts.fill ? l.filled < l.opts.keys : load_now() < l.until_ns;
}

void issue(Load &l, Call &c)
{
    char key[LOAD_KEY_BYTES + 1];
    c.get = !l.opts.fill && load_draw_is_get(&l.draw, &l.opts) != 0;
    c.key = l.opts.fill ? l.opts.first + l.filled++ : load_draw_key(&l.draw);
    load_key(c.key, key);
    c.context.reset(new grpc::ClientContext);
    c.sent_ns = load_now();
    if (c.get) {
        etcdserverpb::RangeRequest r;
        r.set_key(key, LOAD_KEY_BYTES);
        r.set_serializable(l.opts.serializable != 0);
        c.range = c.stub->AsyncRange(c.context.get(), r, &l.queue);
        c.range->Finish(&c.range_response, &c.status, &c);
        l.stats.sent += r.ByteSizeLong();
        return;
    }
    etcdserverpb::PutRequest r;
    load_value(c.key, l.opts.value_bytes, reinterpret_cast<unsigned char *>(&l.value[0]));
    r.set_key(key, LOAD_KEY_BYTES);
    r.set_value(l.value);
    c.put = c.stub->AsyncPut(c.context.get(), r, &l.queue);
    c.put->Finish(&c.put_response, &c.status, &c);
    l.stats.sent += r.ByteSizeLong();
}

void answered(Load &l, Call &c, uint64_t now)
{
    snic_hist_record(&l.stats.latency[c.get], now - c.sent_ns);
    if (!c.status.ok()) {
        load_error(&l.stats, c.status.error_message().c_str());
        return;
    }
    l.stats.end_ns = now;
    if (!c.get) {
        l.stats.sets++;
        l.stats.received += c.put_response.ByteSizeLong();
        return;
    }
    l.stats.gets++;
    l.stats.received += c.range_response.ByteSizeLong();
    if (c.range_response.kvs_size() == 0) {
        l.stats.missing++;
        return;
    }
    load_value(c.key, l.opts.value_bytes, reinterpret_cast<unsigned char *>(&l.value[0]));
    if (c.range_response.kvs(0).value() != l.value)
        load_error(&l.stats, "a value is not that of its key");
}

void run(Load &l, std::vector<Call> &calls)
{
    size_t outstanding = 0;
    void *tag = nullptr;
    bool ok = false;
    l.stats.start_ns = load_now();
    l.until_ns = l.stats.start_ns + static_cast<uint64_t>(l.opts.seconds * 1e9);
    for (Call &c : calls) {
        if (!more(l))
            break;
        issue(l, c);
        outstanding++;
    }
    while (outstanding > 0 && l.queue.Next(&tag, &ok)) {
        Call &c = *static_cast<Call *>(tag);
        answered(l, c, load_now());
        if (more(l))
            issue(l, c);
        else
            outstanding--;
    }
}

} // namespace

int main(int argc, char **argv)
{
    static Load l;
    load_options(&l.opts, argc, argv);
    std::memset(&l.stats, 0, sizeof(l.stats));
    load_draw_init(&l.draw, &l.opts);
    l.value.resize(l.opts.value_bytes);
    uint32_t connections = l.opts.clients < 16 ? l.opts.clients : 16;
    std::vector<std::unique_ptr<etcdserverpb::KV::Stub>> stubs;
    for (uint32_t i = 0; i < connections; i++) {
        grpc::ChannelArguments args;
        args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* a connection of its own */
        args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
        auto channel = grpc::CreateCustomChannel(l.opts.servers[i % l.opts.servers_count],
                                                 grpc::InsecureChannelCredentials(), args);
        if (!channel->WaitForConnected(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                                    gpr_time_from_seconds(10, GPR_TIMESPAN)))) {
            std::fprintf(stderr, "etcd_load: %s does not answer\n",
                         l.opts.servers[i % l.opts.servers_count]);
            return 1;
        }
        stubs.push_back(etcdserverpb::KV::NewStub(channel));
    }
    std::vector<Call> calls(static_cast<size_t>(l.opts.clients) * l.opts.pipeline);
    for (size_t i = 0; i < calls.size(); i++)
        calls[i].stub = stubs[i % connections].get();
    run(l, calls);
    l.queue.Shutdown();
    return load_report(&l.opts, &l.stats);
}
