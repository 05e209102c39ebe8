//! The `joint` family on a GPU.

use super::{Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::joint::{Brick, FixedPart, Joint, JointRule, MessageLayout, Sending};

impl Joint for Cuda {
    fn joint_add(
        &self,
        _: &JointRule,
        _: &FixedPart<'_, Self>,
        _: &[Brick<'_, Self>],
        _: Option<&CudaBuffer<i32>>,
        _: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        Err(self.unsupported("a joint histogram of blocks"))
    }

    fn joint_send(
        &self,
        _: &JointRule,
        _: &FixedPart<'_, Self>,
        _: &Sending,
        _: &mut CudaBuffer<u32>,
        _: &mut CudaBuffer<u32>,
        _: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        Err(self.unsupported("a joint histogram of blocks"))
    }

    fn joint_receive(
        &self,
        _: &JointRule,
        _: MessageLayout,
        _: &CudaBuffer<u32>,
        _: usize,
        _: &Brick<'_, Self>,
        _: Option<&CudaBuffer<i32>>,
        _: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        Err(self.unsupported("a joint histogram of blocks"))
    }
}
