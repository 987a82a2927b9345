// SPDX-License-Identifier: Apache-2.0
// Lists and maps as values of parameters.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "domain.hpp"

namespace {

using Doubles = std::vector<double>;
using Texts = std::vector<std::string>;

TEST(Parameters, CanBeListsAndMaps) {
    test::Domain domain;
    const driveline::Node& node = domain.node;
    const Texts odd{"a\"\\\n\x01", "\xC3\xA9"};
    node.declare_parameter("weights", Doubles{1, 2.5}).value();
    node.declare_parameter("names", odd).value();
    node.declare_parameter("flags", std::vector<bool>{true, false}).value();
    node.declare_parameter("pid", driveline::ParameterTree{R"({"gains": [1.5, 2.5], "on": true})"})
        .value();
    EXPECT_EQ(node.parameter<Doubles>("weights").value(), (Doubles{1.0, 2.5}));
    EXPECT_EQ(node.parameter<Texts>("names").value(), odd);
    EXPECT_EQ(node.parameter<std::vector<bool>>("flags").value(), (std::vector<bool>{true, false}));
    node.set_parameter("weights", std::vector<int>{3, 4, 5}).value();
    EXPECT_EQ(node.parameter<double>("weights/2").value(), 5.0);
    EXPECT_EQ(node.parameter<double>("pid/gains/1").value(), 2.5);
    EXPECT_EQ(node.parameter<driveline::ParameterTree>("pid").value().json,
              R"({"gains":[1.5,2.5],"on":true})");
    EXPECT_EQ(node.parameter<Doubles>("pid").error().message,
              "parameter 'pid' is a map, but is read as a list");
    EXPECT_FALSE(node.set_parameter("weights", Texts{"x"}));
    EXPECT_FALSE(node.set_parameter("pid", driveline::ParameterTree{"{"}));
}

}  // namespace
