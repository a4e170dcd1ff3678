"""Names of the networks that are tried where none is given: a small one of each family."""

from __future__ import annotations

_TIMM = """
    xcit_nano_12_p8_224 starnet_s050 mobilevit_xxs mobilevitv2_050 edgenext_xx_small
    swiftformer_xs efficientformerv2_s0 efficientvim_m1 convit_tiny crossvit_tiny_240 coat_tiny
    levit_128 fastvit_t8 iformer_t gcvit_xxtiny pvt_v2_b0 rexnet_100 repvit_m0_9 shvit_s1
    cs3darknet_s ese_vovnet19b_slim_dw ghostnetv3_050 hrnet_w18_small_v2
    efficientvit_b0 efficientvit_m0 fasternet_t0 hgnetv2_b0 inception_next_atto lcnetv2_small
    mambaout_femto gmlp_ti16_224 visformer_tiny tiny_vit_5m_224 pit_ti_224 nest_tiny
    poolformerv2_s12 focalnet_tiny_srf repghostnet_050 skresnet18 resnest26d res2net50_26w_4s
    selecsls42 dla34 dpn48b cait_xxs24_224 eva02_tiny_patch14_224 hiera_tiny_224 tnt_s_patch16_224
    twins_pcpvt_small volo_d1_224 vitamin_small_224 sequencer2d_s davit_tiny mvitv2_tiny
    maxvit_nano_rw_256 swinv2_cr_tiny_224 vit_relpos_small_patch16_rpn_224 rdnet_tiny tresnet_m
    nextvit_small lowformer_b0 cspnext_tiny cpubone_nano convmixer_768_32 legacy_seresnet18
    vit_tiny_r_s16_p8_224 csatv2 samvit_base_patch16_224 mobileone_s0 halo2botnet50ts_256
    lambda_resnet26rpt_256 mixnet_s nf_regnet_b0 convnext_zepto_rms
"""
_TORCHVISION = """
    squeezenet1_1 googlenet shufflenet_v2_x0_5 mnasnet0_5 maxvit_t swin_v2_t
    lraspp_mobilenet_v3_large fcn_resnet50 ssdlite320_mobilenet_v3_large retinanet_resnet50_fpn
    fasterrcnn_mobilenet_v3_large_fpn fcos_resnet50_fpn r3d_18 mc3_18 r2plus1d_18 s3d mvit_v2_s
    swin3d_t raft_small swin_t efficientnet_b0
"""
_TRANSFORMERS = """
    AlbertModel ElectraModel DebertaV2Model MPNetModel FunnelModel MobileBertModel
    SqueezeBertModel ConvBertModel XLNetModel BartModel T5Model PegasusModel OPTModel BloomModel
    GPTNeoXModel GPTJModel PhiModel Qwen2Model GemmaModel MistralModel FalconModel MambaModel
    ViTModel DeiTModel BeitModel SegformerModel MobileViTModel PoolFormerModel Dinov2Model
    Wav2Vec2Model HubertModel Speech2TextModel WavLMModel ProphetNetModel LongT5Model CvtModel
    RoFormerModel NystromformerModel
"""
NAMES = {
    "timm": tuple(_TIMM.split()),
    "torchvision": tuple(_TORCHVISION.split()),
    "transformers": tuple(_TRANSFORMERS.split()),
}
"""By source."""
