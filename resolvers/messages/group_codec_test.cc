#include "resolvers/messages/group_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace group_codec_test {

constexpr int kHuge = std::numeric_limits<int>::max();

ClusterSpec ClusterOf(int num_tasks) {
  ClusterSpec cluster;
  for (int task = 0; task < num_tasks; ++task) {
    cluster.addresses.push_back(absl::StrCat("host", task, ":1"));
  }
  return cluster;
}

// Returns a group with members (task, device) in rank order.
CollGroupParams GroupOf(const std::vector<std::pair<int, int>>& members) {
  CollGroupParams group;
  group.key = 4;
  group.generation = 6;
  group.device_type = "CPU";
  group.runtime_details.communicator_key = std::string("\0key\xff", 5);
  std::vector<int> tasks;
  for (const auto& [task, index] : members) {
    group.members.push_back({{.name = {"worker", 0, task, "CPU", index},
                              .incarnation = 100u + task}});
    tasks.push_back(task);
  }
  group.layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create(tasks));
  return group;
}

CollectiveRequest RequestOf(int size) {
  CollectiveRequest request;
  request.group_key = 4;
  request.group_size = size;
  request.instance_key = 2;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(size);
  return request;
}

TEST(GroupCodecTest, AGroupSurvivesTheWireWhateverItsOrder) {
  std::mt19937_64 draw(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int, int>> members;
    for (int task = 0; task < 5; ++task) {
      for (int i = 0; i <= static_cast<int>(draw() % 4); ++i) {
        members.emplace_back(task, i);
      }
    }
    if (round % 2 == 0) std::shuffle(members.begin(), members.end(), draw);
    const CollGroupParams group = GroupOf(members);
    const auto decoded =
        DecodeGroup(ClusterOf(5), RequestOf(group.size()), EncodeGroup(group));
    ASSERT_THAT(decoded, IsOk());
    ASSERT_EQ((*decoded)->size(), group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ((*decoded)->members[rank].device, group.members[rank].device);
    }
    EXPECT_EQ(*(*decoded)->layout, *group.layout);
    EXPECT_EQ((*decoded)->generation, 6u);
    EXPECT_EQ((*decoded)->runtime_details.communicator_key,
              group.runtime_details.communicator_key);
  }
}

TEST(GroupCodecTest, ARegularGroupIsOneRange) {
  std::vector<std::pair<int, int>> members;
  for (int task = 0; task < 1024; ++task) {
    for (int i = 0; i < 8; ++i) members.emplace_back(task, i);
  }
  const proto::Group message = EncodeGroup(GroupOf(members));
  EXPECT_EQ(message.members_size(), 1);
  EXPECT_LT(message.ByteSizeLong(), 1024u * 8 + 100);
}

TEST(GroupCodecTest, EveryFieldOfAGroupIsChecked) {
  const proto::Group good =
      EncodeGroup(GroupOf({{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  using Message = proto::Group;
  const auto range = [](Message& m) { return m.mutable_members(0); };
  const std::vector<std::pair<const char*, std::function<void(Message&)>>>
      bad_fields = {
          {"group.group_key is 5", [](Message& m) { m.set_group_key(5); }},
          {"group.generation is 0", [](Message& m) { m.clear_generation(); }},
          {"group.generation is 18446744073709551615",
           [](Message& m) { m.set_generation(UINT64_MAX); }},
          {"group.device_type", [](Message& m) { m.set_device_type("GPU"); }},
          {"only 0 members", [](Message& m) { m.clear_members(); }},
          {"2 tasks from -1",
           [&](Message& m) { range(m)->set_first_task(-1); }},
          {"2 tasks from 2147483647",
           [&](Message& m) { range(m)->set_first_task(kHuge); }},
          {"2 tasks from 2", [&](Message& m) { range(m)->set_first_task(2); }},
          {"0 tasks from", [&](Message& m) { range(m)->set_num_tasks(0); }},
          {"-1 tasks from", [&](Message& m) { range(m)->set_num_tasks(-1); }},
          {"2147483647 tasks from",
           [&](Message& m) { range(m)->set_num_tasks(kHuge); }},
          {"incarnations has 2 entries for 1 tasks",
           [&](Message& m) { range(m)->set_num_tasks(1); }},
          {"incarnations has 0 entries",
           [&](Message& m) { range(m)->clear_incarnations(); }},
          {"device_indices is empty",
           [&](Message& m) { range(m)->clear_device_indices(); }},
          {"device_indices has -1",
           [&](Message& m) { range(m)->set_device_indices(0, -1); }},
          {"device_indices has 2147483647",
           [&](Message& m) { range(m)->set_device_indices(0, kHuge); }},
          {"twice", [&](Message& m) { range(m)->set_device_indices(0, 1); }},
          {"more than 4 members",
           [&](Message& m) {
             for (int i = 0; i < 60'000; ++i) range(m)->add_device_indices(i);
           }},
          {"more than 4 members",
           [&](Message& m) { *m.add_members() = m.members(0); }},
      };
  ASSERT_THAT(DecodeGroup(ClusterOf(3), RequestOf(4), good), IsOk());
  for (const auto& [error, spoil] : bad_fields) {
    proto::Group message = good;
    spoil(message);
    EXPECT_THAT(DecodeGroup(ClusterOf(3), RequestOf(4), message),
                IsInvalidArgument(error));
  }
}

proto::Instance InstanceOf(const CollectiveRequest& request) {
  proto::Instance message;
  message.set_implementation("RingReduce");
  message.mutable_shape()->Add(request.shape.dims().begin(),
                               request.shape.dims().end());
  return message;
}

TEST(GroupCodecTest, EveryFieldOfAnInstanceIsChecked) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  const CollectiveRequest request = RequestOf(2);
  using Message = proto::Instance;
  const std::vector<std::pair<const char*, std::function<void(Message&)>>>
      bad_fields = {
          {"instance.root is -1", [](Message& m) { m.set_root(-1); }},
          {"instance.root is 2", [](Message& m) { m.set_root(2); }},
          {"instance.root is 1", [](Message& m) { m.set_root(1); }},
          {"instance.shape is []", [](Message& m) { m.clear_shape(); }},
          {"negative dimension", [](Message& m) { m.set_shape(0, -1); }},
          {"instance.shape is [9]", [](Message& m) { m.set_shape(0, 9); }},
          {"instance.shape has 301",
           [](Message& m) {
             for (int i = 0; i < 300; ++i) m.add_shape(1);
           }},
          {"instance.rows has 1 entries; wanted 0",
           [](Message& m) { m.add_rows(1); }},
          {"instance.implementation is empty",
           [](Message& m) { m.clear_implementation(); }},
          {"instance.implementation has 1048576 bytes",
           [](Message& m) { m.set_implementation(std::string(1 << 20, 'x')); }},
          {"instance.implementation is \"a/b\"",
           [](Message& m) { m.set_implementation("a/b"); }},
          {"instance.subdiv_offsets has 2000 entries",
           [](Message& m) {
             for (int i = 0; i < 2000; ++i) m.add_subdiv_offsets(i);
           }},
      };
  ASSERT_THAT(DecodeInstance(request, group, 1, InstanceOf(request)), IsOk());
  for (const auto& [error, spoil] : bad_fields) {
    proto::Instance message = InstanceOf(request);
    spoil(message);
    EXPECT_THAT(DecodeInstance(request, group, 1, message),
                IsInvalidArgument(error));
  }
}

TEST(GroupCodecTest, RowsAgreeWithTheMembersOwnAndAddUp) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  CollectiveRequest request = RequestOf(2);
  request.op = AllToAll{.send_rows = {1, 1}};
  const auto decode = [&](const std::vector<int64_t>& rows, int rank) {
    proto::Instance message = InstanceOf(request);
    message.mutable_rows()->Add(rows.begin(), rows.end());
    return DecodeInstance(request, group, rank, message);
  };
  EXPECT_THAT(decode({1, 1, 5, 0}, 0), IsOk());
  for (const auto& rows : std::vector<std::vector<int64_t>>{
           {1, 1, 5}, {1, 2, 5, 0}, {1, 1, -5, 0}, {1, 1, INT64_MAX, 1}}) {
    EXPECT_THAT(decode(rows, 0), IsInvalidArgument("instance.rows"));
  }
  request.op = AllGather{.uneven = true};
  EXPECT_THAT(decode({9, 2}, 1), IsOk());
  EXPECT_THAT(decode({2, 9}, 1), IsInvalidArgument("rank 1 asks for"));
  EXPECT_THAT(decode({INT64_MAX, 2}, 1), IsInvalidArgument("range"));
  // Rows that all members know may be of another execution.
  request.op = AllGather{.uneven = true, .rows = {9, 2}};
  EXPECT_THAT(decode({2, 9}, 1), IsOk());
  EXPECT_THAT(decode({INT64_MAX, 2}, 1), IsInvalidArgument("range"));
}

TEST(GroupCodecTest, OnlyTheSourceOfABroadcastIsItsRoot) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  CollectiveRequest request = RequestOf(2);
  proto::Instance message = InstanceOf(request);
  message.set_root(1);
  request.op = Broadcast{.is_source = true};
  EXPECT_THAT(DecodeInstance(request, group, 1, message), IsOk());
  EXPECT_THAT(DecodeInstance(request, group, 0, message),
              IsInvalidArgument("is the source"));
}

TEST(GroupCodecTest, SpoiltBytesAreDecodedOrRefused) {
  const CollGroupParams group = GroupOf({{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  proto::Settled settled;
  *settled.mutable_group() = EncodeGroup(group);
  *settled.mutable_instance() = InstanceOf(RequestOf(4));
  const std::string good = settled.SerializeAsString();
  std::mt19937_64 draw(1);
  int num_parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0; i <= draw() % 4; ++i) {
      bytes[draw() % bytes.size()] = static_cast<char>(draw());
    }
    proto::Settled message;
    if (!message.ParseFromString(bytes)) continue;
    ++num_parsed;
    const auto decoded =
        DecodeGroup(ClusterOf(3), RequestOf(4), message.group());
    EXPECT_TRUE(!decoded.ok() || (*decoded)->size() == 4);
    DecodeInstance(RequestOf(4), group, 1, message.instance())
        .status()
        .IgnoreError();
  }
  EXPECT_GT(num_parsed, 1000);
}

}  // namespace group_codec_test
}  // namespace tutti
